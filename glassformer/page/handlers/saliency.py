"""Handler for estimates of which tokens mattered: gradients and attention rollout."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from glassformer.inside import NamedTensor, View
from glassformer.inside.attribute.predictions import Predicted
from glassformer.page import describe_model
from glassformer.page.handlers.lens import Outcome, logit_of, outcome
from glassformer.page.handlers.next_token import row
from glassformer.page.handlers.occlusion import METHODS as MEASURES
from glassformer.page.handlers.occlusion import EffectMethod, known, measured_effects
from glassformer.page.request_args import RequestArgs
from glassformer.page.request_types import RunRequest
from glassformer.page.routes import route
from glassformer.page.session import Session

METHODS = ("gradient", "integrated", "rollout")


class SaliencyRequest(RunRequest):
    position: int
    token: NotRequired[int]
    method: Literal["gradient", "integrated", "rollout"]
    measure: NotRequired[EffectMethod]  # what the estimate is compared with


class SaliencyResponse(TypedDict):
    """One number per token of each stack.

    `agreement` is the rank correlation with the measured effects, None if it is not defined.
    """

    token: int | None
    text: str | None
    encoder: list[float] | None
    decoder: list[float] | None
    agreement: float | None


@route("saliency")
def saliency(session: Session, request: RequestArgs[SaliencyRequest]) -> SaliencyResponse:
    """Returns the attribution of a logit to the tokens, or attention rollout."""
    view, method = session.view(request), request.choice("method", METHODS)
    of: Outcome | None = None
    source: NamedTensor | None
    if method == "rollout":
        at = prediction_positions(view, request)
        both = len(describe_model.attention_types(view.model.spec)) == 3
        own = mean_row(view.rollout(), at)
        source = mean_row(view.cross.rollout(), at) if both else None
    else:
        find = view.gradient_x_input if method == "gradient" else view.integrated_gradients
        predicted = Predicted(view)
        found = find(**logit_of(predicted, request))
        own, source, of = found.values, found.source, outcome(predicted, request)
    encoder = own if view.stack == "encoder" else source
    return {
        "token": of and of["token"],
        "text": of and of["text"],
        "encoder": encoder if encoder is None else encoder.tolist(),
        "decoder": own.tolist() if view.stack == "decoder" else None,
        "agreement": agreement(view, request, own, source),
    }


def mean_row(shares: NamedTensor, rows: list[int]) -> NamedTensor:
    return NamedTensor(shares.array[rows].mean(0), shares.axes[1:])


def agreement(
    view: View, request: RequestArgs[Any], own: NamedTensor, source: NamedTensor | None
) -> float | None:
    """Returns the rank correlation with the measured effects that the request names, if any."""
    if "measure" not in request:
        return None
    method = request.choice("measure", MEASURES)
    effects = measured_effects(view, method, logit_of(Predicted(view), request))
    return known(effects.agreement(own, source))


def prediction_positions(view: View, request: RequestArgs[Any]) -> list[int]:
    """Returns the positions the prediction is read from.

    For a model that predicts nothing, this is the selected position.
    """
    if describe_model.prediction_of(view.model, view.head)[0] is None:
        return [request.index("position", most=len(view.tokens) - 1)]
    predicted = Predicted(view)
    token = request.index("token") if "token" in request else None
    return predicted.read_at(row(predicted, request), token)
