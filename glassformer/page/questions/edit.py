"""Page room, questions about edits: before and after, and patches swept over the model."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from glassformer.inside import View
from glassformer.inside.changes import changes
from glassformer.inside.lens import stage_names
from glassformer.inside.patching import sweep as sweep_patches
from glassformer.inside.writing import write
from glassformer.page.asked import Asked
from glassformer.page.packed import Packed
from glassformer.page.questions.lens import rows
from glassformer.page.questions.next_token import LONGEST, knobs, what
from glassformer.page.session import Session, paired

AXES = ("row", "position")
SWEPT = ("resid_pre", "attn_out", "ffn_out", "z", "q", "k", "v", "pattern")


def edit(session: Session, asked: Asked) -> Packed:
    began = time.perf_counter()
    before, after = session.view(asked, edited=False), session.view(asked)
    what(before)
    for view in (before, after):
        view.read_through(stage_names(view))
    position = place(before, asked)
    whole = asked.choice("lens", ("position", "all"), "position") == "all"
    found = changes(before, after, position, whole=whole, **knobs(asked))
    arrays: dict[str, Any] = {"divergence": (found.divergence.array, ("position",))}
    for name, lens in (("before", found.lens_before), ("after", found.lens_after)):
        arrays[f"best_{name}"] = (lens.best.array[..., 0].int(), AXES)
        arrays[f"lens_{name}"] = (lens.best_probability.array[..., 0], AXES)
    length = asked.index("write", 0, most=LONGEST)
    told = {
        "rows": rows(found.lens_before),
        "positions": list(found.lens_before.positions),
        "texts": {**found.lens_before.words, **found.lens_after.words},
        "before": asdict(found.before),
        "after": asdict(found.after),
        "moved": [asdict(one) for one in found.moved],
        "written": {"before": written(before, length), "after": written(after, length)}
        if length
        else None,
        "milliseconds": (time.perf_counter() - began) * 1000,
    }
    return Packed(told, arrays)


def place(view: View, asked: Asked) -> int:
    last = len(view.tokens) - 1
    return asked.index("position", last, most=last)


def written(view: View, length: int) -> str:
    steps, _ = write(view, length, top=1)
    tokenizer = view.model.tokenizer
    ids = [one.chosen.token for one in steps]
    return "" if tokenizer is None else tokenizer.target.decode(ids)


def sweep(session: Session, asked: Asked) -> Packed:
    view = session.view(asked, edited=False)
    what(view)
    token = asked.index("token") if "token" in asked else None
    against = asked.index("against") if "against" in asked else None
    options: dict[str, Any] = {"target": session.target(asked), "position": place(view, asked)}
    found = sweep_patches(
        view.model,
        paired(asked, "text"),
        paired(asked, "from"),
        asked.choice("at", SWEPT),
        token=token,
        versus=against,
        **options,
    )
    return Packed(
        {"title": found.title, "axes": list(found.axes)}, {"effect": (found.array, found.axes)}
    )
