"""Handler for the effects of leaving out and swapping tokens."""

from __future__ import annotations

from math import isnan
from typing import Any, Literal, NotRequired, TypedDict

from glassformer.errors import InputError
from glassformer.inside import NamedTensor, View
from glassformer.inside.attribute.input_effects import InputEffects
from glassformer.inside.attribute.predictions import Predicted
from glassformer.page.handlers.lens import Outcome, logit_of, outcome
from glassformer.page.request_args import RequestArgs
from glassformer.page.request_types import RunRequest, StackName, stack_name
from glassformer.page.routes import route
from glassformer.page.session import Session

METHODS = ("swap", "occlusion")
STACKS = ("encoder", "decoder")
SWAPS, LONG = 3, 64  # replacements per token; one for texts of more tokens
EffectMethod = Literal["swap", "occlusion"]


class OcclusionRequest(RunRequest):
    """The effect of each token on the logit of `token`; "swap" puts others in, "occlusion" none."""

    position: int
    token: NotRequired[int]  # by default the most probable
    method: EffectMethod


class SwapRequest(RunRequest):
    """The effect of the token `by` in place of the one at `at` of `stack`."""

    position: int
    token: NotRequired[int]
    stack: StackName
    at: int
    by: int


class ChangedText(TypedDict):
    """The output for a changed text; `by` is the replacement, None if the token is left out."""

    stack: StackName
    at: int
    by: str | None
    logit: float
    probability: float | None
    best: str
    best_probability: float | None


class OcclusionResponse(Outcome):
    """The fall of the logit per token of each stack, None where nothing was changed."""

    logit: float
    probability: float | None
    encoder: list[float | None] | None
    decoder: list[float | None] | None
    changes: list[ChangedText]


@route("occlusion")
def occlusion(session: Session, request: RequestArgs[OcclusionRequest]) -> OcclusionResponse:
    """Returns the effect of each token, measured by leaving it out or swapping it."""
    view = session.view(request)
    predicted = Predicted(view)
    method = request.choice("method", METHODS)
    found = measured_effects(view, method, logit_of(predicted, request))
    return response(view, found, outcome(predicted, request))


def measured_effects(view: View, method: str, output: dict[str, Any]) -> InputEffects:
    """Returns the effects by a method. The view keeps them; estimates are compared with them."""
    if method == "occlusion":
        return view.occlusion(**output)
    return view.swap(**output, count=SWAPS if len(view.tokens) <= LONG else 1)


@route("swap")
def swap(session: Session, request: RequestArgs[SwapRequest]) -> OcclusionResponse:
    """Returns the effect of one token in place of another."""
    view = session.view(request)
    predicted = Predicted(view)
    stack, at = request.choice("stack", STACKS), request.index("at")
    tokens = getattr(view.model_inputs, stack)
    if at >= len(tokens):
        raise InputError(f"The {stack} has {len(tokens)} tokens, and none at {at}.")
    put = {at: [request.index("by")]}
    found = view.swap(**logit_of(predicted, request), replacements=put, stack=stack)
    return response(view, found, outcome(predicted, request))


def response(view: View, found: InputEffects, of: Outcome) -> OcclusionResponse:
    own = falls(found.values)
    source = None if found.source is None else falls(found.source)
    changes: list[ChangedText] = [
        {
            "stack": stack_name(one.stack),
            "at": one.position,
            "by": one.text,
            "logit": one.logit,
            "probability": known(one.probability),
            "best": one.best,
            "best_probability": known(one.best_probability),
        }
        for one in found.changes
    ]
    return {
        **of,
        "logit": found.logit,
        "probability": known(found.probability),
        "encoder": own if view.stack == "encoder" else source,
        "decoder": own if view.stack == "decoder" else None,
        "changes": changes,
    }


def falls(values: NamedTensor) -> list[float | None]:
    return [known(value) for value in values.array.tolist()]


def known(value: float) -> float | None:
    return None if isnan(value) else value
