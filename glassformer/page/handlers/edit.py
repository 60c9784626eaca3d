"""Handlers for edits, before and after, and for patching sweeps."""

from __future__ import annotations

import time
from typing import Any, Literal, NotRequired, TypedDict

from glassformer.inside import View
from glassformer.inside.attribute.predictions import Predicted
from glassformer.inside.capture.look import look
from glassformer.inside.compare import Mover
from glassformer.inside.generation_trace import generation_trace
from glassformer.inside.intervene.choices import OutputChoice
from glassformer.inside.intervene.edit_effects import edit_effects, lens_changes
from glassformer.inside.intervene.patching import aligned
from glassformer.inside.intervene.patching import sweep as sweep_patches
from glassformer.inside.lens.stages import stage_names
from glassformer.page.binary_response import BinaryResponse
from glassformer.page.handlers.lens import LensRow, Outcome, check_lens, logit_of, outcome, rows
from glassformer.page.handlers.next_token import (
    MAX_NEW_TOKENS,
    check_tokens,
    row,
    sampling_options,
)
from glassformer.page.request_args import RequestArgs
from glassformer.page.request_types import (
    EditedRunRequest,
    FromText,
    RunRequest,
    SamplingOptions,
)
from glassformer.page.routes import route
from glassformer.page.session import Session, paired

AXES = ("row", "position")
SWEEP_POINTS = ("resid_pre", "attn_out", "ffn_out", "z", "q", "k", "v", "pattern")


class EditRequest(EditedRunRequest, SamplingOptions):
    position: NotRequired[int]  # of the compared predictions; by default the last


class EditMetadata(TypedDict):
    """`moved` are the outputs whose probability changed most; `tokens` is the text's length."""

    before: OutputChoice
    after: OutputChoice
    moved: list[Mover]
    tokens: int
    milliseconds: float


class EditResponse(BinaryResponse[EditMetadata, Literal["divergence"]]):
    """`divergence` [row] is KL(before || after) of all predictions."""


class EditLensRequest(EditedRunRequest):
    """The lens at `count` positions from `first` on; by default all."""

    first: NotRequired[int]
    count: NotRequired[int]


class EditLensMetadata(TypedDict):
    rows: list[LensRow]
    texts: dict[int, str]
    first: int
    tokens: int


class EditLensResponse(
    BinaryResponse[
        EditLensMetadata, Literal["best_before", "best_after", "lens_before", "lens_after"]
    ]
):
    """The most probable token [row, position] before and after, and its probability."""


class EditTextRequest(EditedRunRequest):
    length: NotRequired[int]


class EditTextResponse(TypedDict):
    before: str
    after: str


class SweepRequest(RunRequest, FromText):
    """Patches each activation of `text` from the run of `from`."""

    at: Literal["resid_pre", "attn_out", "ffn_out", "z", "q", "k", "v", "pattern"]
    position: NotRequired[int]
    token: NotRequired[int]  # by default the most probable of `text`
    against: NotRequired[int]  # the logit of this token is subtracted


class SweepMetadata(TypedDict):
    """`output` is measured; `pairs` are the positions of `text` and of `from`."""

    title: str
    axes: list[str]
    output: Outcome
    pairs: list[tuple[int, int]]


class SweepResponse(BinaryResponse[SweepMetadata, Literal["effect"]]):
    """The change of the logit [layer, position], or [layer, head] for z, q, k, v and pattern."""


@route("edit")
def edit(session: Session, request: RequestArgs[EditRequest]) -> EditResponse:
    """Returns the predictions before and after the edits; the lens is a separate request."""
    start = time.perf_counter()
    before, after = both(session, request)
    predicted = Predicted(before)
    for view in (before, after) if predicted.by.lens else ():
        view.run_with_cache(stage_names(view.model.spec))  # the lens is requested next
    found = edit_effects(before, after, row(predicted, request), **sampling_options(request))
    metadata: EditMetadata = {
        "before": found.before,
        "after": found.after,
        "moved": found.moved,
        "tokens": len(before.tokens),
        "milliseconds": (time.perf_counter() - start) * 1000,
    }
    return EditResponse(metadata, {"divergence": (found.divergence.array, found.divergence.axes)})


@route("edit_lens")
def edit_lens(session: Session, request: RequestArgs[EditLensRequest]) -> EditLensResponse:
    """Returns the lens before and after the edits at the visible positions."""
    before, after = both(session, request)
    check_lens(before)
    size = len(before.tokens)
    first = request.index("first", 0, most=size - 1)
    count = request.index("count", size - first, least=1, most=size - first)
    found = lens_changes(before, after, range(first, first + count))
    arrays: dict[str, Any] = {}
    for name, top in (("before", found.before), ("after", found.after)):
        arrays[f"best_{name}"] = (top.best.array.int(), AXES)
        arrays[f"lens_{name}"] = (top.probability.array, AXES)
    return EditLensResponse(
        {"rows": rows(found.stages), "texts": found.words, "first": first, "tokens": size}, arrays
    )


@route("edit_text")
def edit_text(session: Session, request: RequestArgs[EditTextRequest]) -> EditTextResponse:
    """Returns the text generated before and after the edits."""
    length = request.index("length", 16, least=1, most=MAX_NEW_TOKENS)
    views = both(session, request)
    check_tokens(views[0])
    before, after = (generated_text(view, length) for view in views)
    return {"before": before, "after": after}


def both(session: Session, request: RequestArgs[Any]) -> tuple[View, View]:
    """Returns the views without and with the edits."""
    return session.view(request, edited=False), session.view(request)


def generated_text(view: View, length: int) -> str:
    steps, _ = generation_trace(view, length, top=1)
    tokenizer = view.model.tokenizer
    ids = [one.chosen.token for one in steps]
    return "" if tokenizer is None else tokenizer.target_tokenizer.decode(ids)


@route("sweep")
def sweep(session: Session, request: RequestArgs[SweepRequest]) -> SweepResponse:
    """Returns the effect of patching each activation from another text."""
    view = session.view(request, edited=False)
    other = look(view.model, paired(request, "from"), session.target(request))
    found = sweep_patches(
        view.model,
        paired(request, "text"),
        paired(request, "from"),
        request.choice("at", SWEEP_POINTS),
        target=session.target(request),
        **logit_of(Predicted(view), request),
    )
    metadata: SweepMetadata = {
        "title": found.title,
        "axes": list(found.axes),
        "output": outcome(Predicted(view), request),
        "pairs": aligned([one.id for one in view.tokens], [one.id for one in other.tokens]),
    }
    return SweepResponse(metadata, {"effect": (found.array, found.axes)})
