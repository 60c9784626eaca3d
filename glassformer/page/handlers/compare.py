"""Handler for the comparison of two models on one text."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, cast

from glassformer.errors import ConfigError
from glassformer.inside.attribute.predictions import Predicted
from glassformer.inside.compare import compare as compare_models
from glassformer.inside.intervene.choices import OutputChoice, choices
from glassformer.inside.intervene.edit_effects import weight_changes
from glassformer.page.binary_response import BinaryResponse
from glassformer.page.handlers.next_token import row
from glassformer.page.handlers.text import PageToken, tokens
from glassformer.page.request_args import RequestArgs
from glassformer.page.request_types import AttentionType
from glassformer.page.routes import route
from glassformer.page.session import Session, paired

WEIGHTS = 20  # number of weights that are listed


class CompareRequest(TypedDict):
    a: str
    b: str
    text: str
    pair: NotRequired[str]
    target: NotRequired[str]
    output: NotRequired[str]  # used if one of the models has a head of that name
    position: NotRequired[int]


class StackTokens(TypedDict):
    encoder: list[PageToken] | None
    decoder: list[PageToken] | None


class WeightChange(TypedDict):
    """The change of a weight, relative to its norm."""

    name: str
    change: float


class CompareMetadata(TypedDict):
    """`a` and `b` are the predictions, if both models choose among the same outcomes."""

    attention_types: list[AttentionType]
    tokens: StackTokens
    a: OutputChoice | None
    b: OutputChoice | None
    weights: list[WeightChange]


class CompareResponse(BinaryResponse[CompareMetadata, str]):
    """Changes by layer and head.

    For each attention type: `heads.<type>` [layer, head] is the mean total variation distance of
    the patterns, `written.<type>` [layer, head] the relative change of the head's output,
    `attention.<type>` [layer] that of all heads together. For each stack `ffn.<stack>`,
    `residual.<stack>` and `cosine.<stack>` [layer]. `divergence` [row] is KL(a || b) of the
    predictions, if both models choose among the same outcomes.
    """


@route("compare")
def compare(session: Session, request: RequestArgs[CompareRequest]) -> CompareResponse:
    """Returns the changes between models `a` and `b` on one text."""
    first, second = (session.model(request.text(name)) for name in ("a", "b"))
    if first is second:
        raise ConfigError("Both models are the same; choose two models, or two steps of a run.")
    session.check_texts(request.text("a"), request.fields)
    text, target = paired(request, "text"), session.target(request, "a")
    heads = {head.name for model in (first, second) for head in model.spec.heads}
    head = request.output if request.output in heads else None  # the page may show a third model
    found = compare_models(first, second, text, target, head=head)
    arrays: dict[str, Any] = {}
    for name, side in found.sides.items():
        changes = {
            "heads": side.pattern,
            "written": side.head_change,
            "attention": side.attention_change,
            "ffn": side.feed_forward_change,
            "residual": side.residual_change,
            "cosine": side.residual_cosine,
        }
        for kind, one in changes.items():
            if one is not None:
                arrays[f"{kind}.{name}"] = (one.array.float(), one.axes)
    comparable = found.logit_divergence is not None
    if found.logit_divergence is not None:
        divergence = found.logit_divergence
        arrays["divergence"] = (divergence.array.float(), divergence.axes)
    views = (found.before, found.after) if comparable else ()
    predictions = [choices(view, [row(Predicted(view), request)])[0] for view in views]
    zero = {name for name, weight in first.named_parameters() if not weight.any()}  # no ratio
    change = [each for each in weight_changes(first, second) if each[0] not in zero]
    metadata: CompareMetadata = {
        "attention_types": cast(list[AttentionType], list(found.sides)),
        "tokens": {
            "encoder": tokens(found.before, "encoder"),
            "decoder": tokens(found.before, "decoder"),
        },
        "a": predictions[0] if comparable else None,
        "b": predictions[1] if comparable else None,
        "weights": [{"name": name, "change": size} for name, size in change[:WEIGHTS]],
    }
    return CompareResponse(metadata, arrays)
