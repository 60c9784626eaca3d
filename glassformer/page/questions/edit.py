"""Page room, questions about edits: before and after, and patches swept over the model."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from glassformer.inside import View
from glassformer.inside.changes import changes, lens_changes
from glassformer.inside.lens import stage_names
from glassformer.inside.patching import sweep as sweep_patches
from glassformer.inside.writing import write
from glassformer.page.asked import Asked
from glassformer.page.packed import Packed
from glassformer.page.questions.lens import rows
from glassformer.page.questions.next_token import LONGEST, knobs, what
from glassformer.page.session import Session

AXES = ("row", "position")
SWEPT = ("resid_pre", "attn_out", "ffn_out", "z", "q", "k", "v", "pattern")


def edit(session: Session, asked: Asked) -> Packed:
    """What is predicted, which is all that comes at once."""
    began = time.perf_counter()
    before, after = both(session, asked)
    for view in (before, after):
        view.read_through(stage_names(view))  # the lens will be asked for next
    found = changes(before, after, place(before, asked), **knobs(asked))
    told = {
        "before": asdict(found.before),
        "after": asdict(found.after),
        "moved": [asdict(one) for one in found.moved],
        "milliseconds": (time.perf_counter() - began) * 1000,
    }
    return Packed(told, {"divergence": (found.divergence.array, ("position",))})


def edit_lens(session: Session, asked: Asked) -> Packed:
    """Of the positions that are in sight."""
    before, after = both(session, asked)
    size = len(before.tokens)
    first = asked.index("first", 0, most=size - 1)
    count = asked.index("count", size - first, least=1, most=size - first)
    found = lens_changes(before, after, range(first, first + count))
    arrays: dict[str, Any] = {}
    for name, said in (("before", found.before), ("after", found.after)):
        arrays[f"best_{name}"] = (said.best.array.int(), AXES)
        arrays[f"lens_{name}"] = (said.probability.array, AXES)
    told = {"rows": rows(found.stages), "texts": found.words, "first": first, "tokens": size}
    return Packed(told, arrays)


def edit_text(session: Session, asked: Asked) -> dict[str, Any]:
    """What is written from the text."""
    length = asked.index("length", 16, least=1, most=LONGEST)
    before, after = (written(view, length) for view in both(session, asked))
    return {"before": before, "after": after}


def both(session: Session, asked: Asked) -> tuple[View, View]:
    """Without the edits, and with them."""
    before, after = session.view(asked, edited=False), session.view(asked)
    what(before)
    return before, after


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
    text = asked.text("text")
    token = asked.index("token") if "token" in asked else None
    against = asked.index("against") if "against" in asked else None
    source = asked.text("from")
    options: dict[str, Any] = {"target": session.target(asked), "position": place(view, asked)}
    found = sweep_patches(
        view.model,
        text,
        source,
        asked.choice("at", SWEPT),
        token=token,
        versus=against,
        **options,
    )
    return Packed(
        {"title": found.title, "axes": list(found.axes)}, {"effect": (found.array, found.axes)}
    )
