"""Handlers for edits, before and after, and for patching sweeps."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from glassformer.inside import View
from glassformer.inside.attribute.predictions import Predicted
from glassformer.inside.generation_trace import generation_trace
from glassformer.inside.intervene.edit_effects import edit_effects, lens_changes
from glassformer.inside.intervene.patching import sweep as sweep_patches
from glassformer.inside.lens.stages import stage_names
from glassformer.page.binary_response import BinaryResponse
from glassformer.page.handlers.lens import check_lens, logit_of, rows
from glassformer.page.handlers.next_token import LONGEST, knobs, row, tokens_of
from glassformer.page.request_args import RequestArgs
from glassformer.page.session import Session, paired

AXES = ("row", "position")
SWEPT = ("resid_pre", "attn_out", "ffn_out", "z", "q", "k", "v", "pattern")


def edit(session: Session, asked: RequestArgs) -> BinaryResponse:
    """Returns the predictions before and after the edits; the lens is a separate request."""
    began = time.perf_counter()
    before, after = both(session, asked)
    said = Predicted(before)
    for view in (before, after) if said.by.lens else ():
        view.run_with_cache(stage_names(view.model.spec))  # the lens is requested next
    found = edit_effects(before, after, row(said, asked), **knobs(asked))
    told = {
        "before": asdict(found.before),
        "after": asdict(found.after),
        "moved": [asdict(one) for one in found.moved],
        "tokens": len(before.tokens),
        "milliseconds": (time.perf_counter() - began) * 1000,
    }
    return BinaryResponse(told, {"divergence": (found.divergence.array, found.divergence.axes)})


def edit_lens(session: Session, asked: RequestArgs) -> BinaryResponse:
    """Returns the lens before and after the edits at the visible positions."""
    before, after = both(session, asked)
    check_lens(before)
    size = len(before.tokens)
    first = asked.index("first", 0, most=size - 1)
    count = asked.index("count", size - first, least=1, most=size - first)
    found = lens_changes(before, after, range(first, first + count))
    arrays: dict[str, Any] = {}
    for name, said in (("before", found.before), ("after", found.after)):
        arrays[f"best_{name}"] = (said.best.array.int(), AXES)
        arrays[f"lens_{name}"] = (said.probability.array, AXES)
    told = {"rows": rows(found.stages), "texts": found.words, "first": first, "tokens": size}
    return BinaryResponse(told, arrays)


def edit_text(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns the text generated before and after the edits."""
    length = asked.index("length", 16, least=1, most=LONGEST)
    views = both(session, asked)
    tokens_of(views[0])
    before, after = (written(view, length) for view in views)
    return {"before": before, "after": after}


def both(session: Session, asked: RequestArgs) -> tuple[View, View]:
    """Returns the views without and with the edits."""
    return session.view(asked, edited=False), session.view(asked)


def written(view: View, length: int) -> str:
    steps, _ = generation_trace(view, length, top=1)
    tokenizer = view.model.tokenizer
    ids = [one.chosen.token for one in steps]
    return "" if tokenizer is None else tokenizer.target.decode(ids)


def sweep(session: Session, asked: RequestArgs) -> BinaryResponse:
    """Returns the effect of patching each place from another text."""
    view = session.view(asked, edited=False)
    options: dict[str, Any] = {"target": session.target(asked), **logit_of(Predicted(view), asked)}
    found = sweep_patches(
        view.model,
        paired(asked, "text"),
        paired(asked, "from"),
        asked.choice("at", SWEPT),
        **options,
    )
    return BinaryResponse(
        {"title": found.title, "axes": list(found.axes)}, {"effect": (found.array, found.axes)}
    )
