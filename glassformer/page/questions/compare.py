"""Page room, questions about two models: which heads and layers have moved, on one text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from glassformer.errors import GlassformerError
from glassformer.inside import View
from glassformer.inside.changes import weight_changes
from glassformer.inside.choices import choices
from glassformer.inside.compare import compare as compare_models
from glassformer.page.asked import Asked
from glassformer.page.facts import predicts
from glassformer.page.packed import Packed
from glassformer.page.questions.text import tokens
from glassformer.page.session import Session, paired

WEIGHTS = 20  # that are named


def compare(session: Session, asked: Asked) -> Packed:
    first, second = (session.model(asked.text(name)) for name in ("a", "b"))
    if first is second:
        raise GlassformerError("A model is the same as itself; choose two, or two steps of a run.")
    session.check_texts(asked.text("a"), asked.given)
    found = compare_models(first, second, paired(asked, "text"), session.target(asked, "a"))
    arrays: dict[str, Any] = {}
    for name, side in found.sides.items():
        named = {
            "heads": side.pattern,
            "written": side.head_change,
            "attention": side.attention_change,
            "ffn": side.feed_forward_change,
            "residual": side.residual_change,
            "cosine": side.residual_cosine,
        }
        for kind, one in named.items():
            if one is not None:
                arrays[f"{kind}.{name}"] = (one.array.float(), one.axes)
    if found.logit_divergence is not None:
        far = found.logit_divergence
        arrays["divergence"] = (far.array.float(), far.axes)
    change = weight_changes(first.net, second.net)
    told = {
        "sights": list(found.sides),
        "tokens": {name: tokens(found.before, name) for name in ("encoder", "decoder")},
        "a": prediction(found.before, asked),
        "b": prediction(found.after, asked),
        "weights": [{"name": name, "change": far} for name, far in change[:WEIGHTS]],
    }
    return Packed(told, arrays)


def prediction(view: View, asked: Asked) -> dict[str, Any] | None:
    if predicts(view.model.spec)[0] is None:
        return None
    last = len(view.tokens) - 1
    return asdict(choices(view, [asked.index("position", last, most=last)])[0])
