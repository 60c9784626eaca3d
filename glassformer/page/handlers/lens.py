"""Handlers for lenses and contributions to a logit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict

from glassformer.errors import UnsupportedError
from glassformer.inside import View
from glassformer.inside.attribute.predictions import Predicted
from glassformer.inside.intervene.choices import OutputChoice, stage_choice
from glassformer.page import describe_model
from glassformer.page.binary_response import BinaryResponse
from glassformer.page.handlers.next_token import MAX_CANDIDATES, row
from glassformer.page.model_description import PredictionKind
from glassformer.page.request_args import RequestArgs
from glassformer.page.request_types import RunRequest, StackName, stack_name
from glassformer.page.routes import route
from glassformer.page.session import Session

AXES = ("row", "position")
LensStage = Literal["embed", "attention", "ffn"]
STAGES: dict[str, LensStage] = {
    "embedding": "embed",
    "attention": "attention",
    "feed-forward": "ffn",
}


class LensRequest(RunRequest):
    """The lens of a text.

    `token` is the token whose probability and rank are returned: one token at every position, the
    actual token of each position (the default), or the final prediction of each position.
    """

    token: NotRequired[int | Literal["actual", "final"]]
    tuned: NotRequired[bool]


class LensRow(TypedDict):
    """A stage of the residual stream: "embed", "0.mid" (after attention), "0.post", ..."""

    name: str
    layer: int | None
    after: LensStage


class LensMetadata(TypedDict):
    """`texts` has the text of every token id in the arrays."""

    what: PredictionKind
    stack: StackName
    rows: list[LensRow]
    texts: dict[int, str]


class LensResponse(
    BinaryResponse[
        LensMetadata,
        Literal[
            "best",
            "probability",
            "chosen",
            "logit",
            "rank",
            "entropy",
            "divergence",
            "norm",
            "wanted",
        ],
    ]
):
    """Measures of each stage and position, [row, position].

    `best` (int32) and its `probability`; `chosen` (probability), `logit` and `rank` (int32) of the
    followed token, -1 if there is none; `entropy`; `divergence` (KL from the last row); `norm` of
    the residual stream. `wanted` [position] (int32) is the followed token.
    """


class LensCellRequest(RunRequest):
    row: int
    position: int
    count: NotRequired[int]
    tuned: NotRequired[bool]


class ContributionsRequest(RunRequest):
    """The contributions to the logit of `token`, or to its difference from that of `against`."""

    position: int
    token: NotRequired[int]  # by default the most probable
    against: NotRequired[int]


class Outcome(TypedDict):
    token: int
    text: str


class LogitContribution(TypedDict):
    kind: str
    name: str
    layer: int | None
    head: int | None
    value: float


class ContributionsResponse(Outcome):
    """The contributions add up to `logit`, or to the difference of two logits."""

    against: Outcome | None
    logit: float
    parts: list[LogitContribution]


@route("lens")
def lens(session: Session, request: RequestArgs[LensRequest]) -> LensResponse:
    """Returns the logit lens or tuned lens of a text."""
    view = session.view(request)
    predicted = check_lens(view)
    tuned = session.tuned(request)
    token = followed_token(predicted, request)
    found = view.lens(token=token, top=1, head=predicted.head.name, tuned=tuned)
    arrays = {
        "best": (found.best.array[..., 0].int(), AXES),
        "probability": (found.best_probability.array[..., 0], AXES),
        "chosen": (found.probability.array, AXES),
        "logit": (found.logit.array, AXES),
        "rank": (found.rank.array.int(), AXES),
        "entropy": (found.entropy.array, AXES),
        "divergence": (found.divergence.array, AXES),
        "norm": (found.norm.array, AXES),
        "wanted": (found.chosen.int(), ("position",)),
    }
    metadata: LensMetadata = {
        "what": describe_model.prediction_kind(predicted.what),
        "stack": stack_name(view.stack),
        "rows": rows(found.stages),
        "texts": found.words,
    }
    return LensResponse(metadata, arrays)


def check_lens(view: View) -> Predicted:
    """Returns the predictions of the view; raises if its head has no lens."""
    predicted = Predicted(view)
    if not predicted.by.lens:
        raise UnsupportedError(
            "This model has no logit lens: its head does not predict at a single position, so it "
            "cannot be applied to the residual stream of one layer and position."
        )
    return predicted


def followed_token(predicted: Predicted, request: RequestArgs[Any]) -> int | list[int] | None:
    """Returns the token whose probability the lens follows.

    This is one token, the actual token of every position, or None for the final prediction.
    """
    if isinstance(request.fields.get("token"), int):
        return request.index("token")
    if request.choice("token", ("actual", "final"), "actual") == "final":
        return None
    actual = (predicted.actual(position) for position in range(len(predicted.view.tokens)))
    return [-1 if token is None else token for token in actual]


@route("lens_cell")
def lens_cell(session: Session, request: RequestArgs[LensCellRequest]) -> OutputChoice:
    """Returns the candidates of one stage and position."""
    view = session.view(request)
    check_lens(view)
    position = request.index("position", most=len(view.tokens) - 1)
    top = request.index("count", 10, least=1, most=MAX_CANDIDATES)
    return stage_choice(view, request.index("row"), position, top, session.tuned(request))


def rows(stages: Sequence[tuple[int | None, str]]) -> list[LensRow]:
    return [
        {
            "name": "embed"
            if layer is None
            else f"{layer}.{'mid' if part == 'attention' else 'post'}",
            "layer": layer,
            "after": STAGES[part],
        }
        for layer, part in stages
    ]


@route("contributions")
def contributions(
    session: Session, request: RequestArgs[ContributionsRequest]
) -> ContributionsResponse:
    """Returns the contributions to a logit."""
    view = session.view(request)
    predicted = Predicted(view)
    found = view.contributions(**logit_of(predicted, request))
    against: Outcome | None = None
    if "against" in request:
        against = {"token": request.index("against"), "text": found.versus or ""}
    parts: list[LogitContribution] = [
        {
            "kind": part.kind,
            "name": part.name,
            "layer": part.layer,
            "head": part.head,
            "value": part.value,
        }
        for part in found.parts
    ]
    return {
        **outcome(predicted, request),
        "against": against,
        "logit": found.logit,
        "parts": parts,
    }


def logit_of(predicted: Predicted, request: RequestArgs[Any]) -> dict[str, Any]:
    """Returns the requested logit as keyword arguments of the functions of `inside`."""
    token = request.index("token") if "token" in request else None
    position, output = predicted.logit_place(row(predicted, request), token)
    found = {"token": output, "position": position, "head": predicted.head.name}
    if "against" not in request:
        return found
    if predicted.what == "span":
        raise UnsupportedError(
            "The logits of two answer positions cannot be compared; leave out 'against'."
        )
    return {**found, "versus": request.index("against")}


def outcome(predicted: Predicted, request: RequestArgs[Any]) -> Outcome:
    given = "token" in request
    token = request.index("token") if given else predicted.best(row(predicted, request))
    return {"token": token, "text": predicted.text(token)}
