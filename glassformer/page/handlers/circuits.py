"""Handlers for circuits and the composition of heads."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from glassformer.inside import circuit as find_circuit
from glassformer.inside import composition as find_composition
from glassformer.inside.lens.unembed import TokenScore
from glassformer.inside.weights.circuits import SIDES
from glassformer.inside.weights.composition import KINDS
from glassformer.page.binary_response import BinaryResponse
from glassformer.page.request_args import RequestArgs
from glassformer.page.request_types import ModelRequest, StackName
from glassformer.page.routes import route
from glassformer.page.session import Session

STACKS = ("encoder", "decoder")
HeadPair = TypedDict("HeadPair", {"from": int, "to": int, "score": float})


class CircuitRequest(ModelRequest):
    """A circuit of a head (ov, qk) or of the neurons of a layer (in, gate, out)."""

    stack: StackName
    layer: int
    head: NotRequired[int]
    which: NotRequired[Literal["ov", "qk", "in", "gate", "out"]]
    cross: NotRequired[bool]  # of the heads of cross-attention


class CircuitDirection(TypedDict):
    """The tokens at the positive and at the negative end of a direction."""

    toward: tuple[TokenScore, ...]
    away: tuple[TokenScore, ...]


class CircuitResponse(TypedDict):
    """The strongest directions; `ends` has one entry per strength and side of the circuit."""

    which: str
    strengths: list[float]
    ends: dict[str, list[CircuitDirection]]


class CompositionRequest(ModelRequest):
    stack: StackName
    kind: NotRequired[Literal["q", "k", "v"]]


class HeadAddress(TypedDict):
    layer: int
    head: int


class CompositionMetadata(TypedDict):
    """All heads, and the highest pairs by indices into `heads`."""

    heads: list[HeadAddress]
    top: list[HeadPair]


class CompositionResponse(BinaryResponse[CompositionMetadata, Literal["scores"]]):
    """Scores [from, to]; 0 if the second head is not in a later layer."""


@route("circuit")
def circuit(session: Session, request: RequestArgs[CircuitRequest]) -> CircuitResponse:
    """Returns the strongest directions of a circuit, with their tokens."""
    model = session.model(request.text("model"))
    which = request.choice("which", tuple(SIDES), "ov")
    found = find_circuit(
        model,
        request.index("layer"),
        request.index("head") if which in ("ov", "qk") else None,
        which,
        stack=request.choice("stack", STACKS),
        cross=request.flag("cross") and which in ("ov", "qk"),
    )
    ends: dict[str, list[CircuitDirection]] = {
        name: [{"toward": toward, "away": away} for toward, away in end.words]
        for name, end in found.ends.items()
    }
    return {"which": which, "strengths": found.strengths.tolist(), "ends": ends}


@route("composition")
def composition(session: Session, request: RequestArgs[CompositionRequest]) -> CompositionResponse:
    """Returns the composition scores of all heads, and the ten highest pairs."""
    model = session.model(request.text("model"))
    kind = request.choice("kind", tuple(KINDS), "k")
    found = find_composition(model, kind, request.choice("stack", STACKS))
    heads: list[HeadAddress] = [{"layer": layer, "head": head} for layer, head in found.heads]
    top: list[HeadPair] = [
        {"from": found.heads.index(one), "to": found.heads.index(other), "score": score}
        for one, other, score in found.top(10)
    ]
    return CompositionResponse(
        {"heads": heads, "top": top}, {"scores": (found.scores.array, ("from", "to"))}
    )
