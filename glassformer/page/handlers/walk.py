"""Handlers for the computation steps of a text and the explanation of single numbers."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict, cast

from glassformer.inside.explain.cells import cell as explain
from glassformer.inside.explain.steps import steps
from glassformer.inside.explain.terms import Term
from glassformer.page.request_args import RequestArgs
from glassformer.page.request_types import RunRequest, StackName, stack_name
from glassformer.page.routes import route
from glassformer.page.session import Session

# "norm" is what the attention reads; "rotate_q", "bias" and "cap" only if the model has them.
# fmt: off
AttentionStep = Literal[
    "norm", "q", "k", "v", "rotate_q", "rotate_k", "dot", "scale", "cap", "bias", "mask",
    "softmax", "weighted", "joined", "projected", "residual",
]
CrossAttentionStep = Literal[
    "cross_norm", "cross_q", "cross_k", "cross_v", "cross_rotate_q", "cross_rotate_k", "cross_dot",
    "cross_scale", "cross_cap", "cross_bias", "cross_mask", "cross_softmax", "cross_weighted",
    "cross_joined", "cross_projected", "cross_residual",
]
# "stream" is the residual stream before the layer, "memory" the encoder's output.
OtherStep = Literal[
    "tokens", "embed_token", "embed_position", "embed_type", "embed", "embed_norm",
    "embed_project", "stream", "memory", "norm_ffn", "ffn_gate", "ffn_up", "ffn_act", "ffn_down",
    "residual_ffn", "norm_final", "logits", "probabilities", "choice",
]
CellOperation = Literal[
    "lookup", "sum", "norm", "dot", "rotate", "scale", "cap", "mask", "softmax", "weighted", "join",
    "activation", "product",
]
# fmt: on
StepKind = AttentionStep | CrossAttentionStep | OtherStep


class WalkRequest(RunRequest):
    stack: StackName
    layer: int
    head: int


class WalkStep(TypedDict):
    """A computation step.

    `array` is the name for the routes `array` and `cell`, None if there is nothing to display;
    `inputs` are the ids of the steps that it is computed from. `parameters` are what the formula
    needs: scale, eps, norm, bias, activation, heads, head, key_head, dim, placement, ...; `weight`
    is the name of the matrix, `rows` "from:to" of it if a head has a part of it.
    """

    id: str
    kind: StepKind
    stack: StackName
    layer: int | None
    array: str | None
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    inputs: tuple[str, ...]
    parameters: dict[str, str | float | bool | None]


class WalkResponse(TypedDict):
    """The steps in order: from the text through the selected layer to the prediction."""

    steps: list[WalkStep]


class CellRequest(RunRequest):
    """A number of a step's array; `limit` is the number of terms that are listed."""

    name: str
    head: NotRequired[int]
    row: int
    col: int
    limit: NotRequired[int]


class CellResponse(TypedDict):
    """A number and the terms that it is computed from; see `inside.explain.terms.Cell`."""

    value: float
    how: CellOperation
    terms: tuple[Term, ...]
    parts: dict[str, float | str]


@route("walk")
def walk(session: Session, request: RequestArgs[WalkRequest]) -> WalkResponse:
    """Returns the computation steps through one layer and head."""
    view = session.view(request)
    stack = request.choice("stack", ("encoder", "decoder"))
    found: list[WalkStep] = [
        {
            "id": step.id,
            "kind": cast(StepKind, step.kind),
            "stack": stack_name(step.stack),
            "layer": step.layer,
            "array": step.array,
            "shape": step.shape,
            "axes": step.axes,
            "inputs": step.origin,
            "parameters": step.facts,
        }
        for step in steps(view, stack, request.index("layer"), request.index("head"))
    ]
    return {"steps": found}


@route("cell")
def cell(session: Session, request: RequestArgs[CellRequest]) -> CellResponse:
    """Returns the explanation of one number of a tensor."""
    view = session.view(request)
    head = request.index("head") if "head" in request else None
    limit = request.index("limit", 12, least=1)
    row, column = request.index("row"), request.index("col")
    found = explain(view, request.text("name"), row, column, head=head, limit=limit)
    return {
        "value": found.value,
        "how": cast(CellOperation, found.how),
        "terms": found.terms,
        "parts": found.parts,
    }
