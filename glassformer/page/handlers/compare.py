"""Handler for the comparison of two models on one text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from glassformer.errors import ConfigError
from glassformer.inside.attribute.predictions import Predicted
from glassformer.inside.compare import compare as compare_models
from glassformer.inside.intervene.choices import choices
from glassformer.inside.intervene.edit_effects import weight_changes
from glassformer.page.binary_response import BinaryResponse
from glassformer.page.handlers.next_token import row
from glassformer.page.handlers.text import tokens
from glassformer.page.request_args import RequestArgs
from glassformer.page.session import Session, paired

WEIGHTS = 20  # number of weights that are listed


def compare(session: Session, asked: RequestArgs) -> BinaryResponse:
    """Returns the changes between models `a` and `b` on one text."""
    first, second = (session.model(asked.text(name)) for name in ("a", "b"))
    if first is second:
        raise ConfigError("A model is the same as itself; choose two, or two steps of a run.")
    session.check_texts(asked.text("a"), asked.given)
    text, target = paired(asked, "text"), session.target(asked, "a")
    heads = {head.name for model in (first, second) for head in model.spec.heads}
    head = asked.output if asked.output in heads else None  # the page may show a third model
    found = compare_models(first, second, text, target, head=head)
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
    same = found.logit_divergence is not None
    views = (found.before, found.after) if same else ()
    said = [asdict(choices(view, [row(Predicted(view), asked)])[0]) for view in views]
    change = weight_changes(first, second)
    told = {
        "sights": list(found.sides),
        "tokens": {name: tokens(found.before, name) for name in ("encoder", "decoder")},
        "a": said[0] if same else None,
        "b": said[1] if same else None,
        "weights": [{"name": name, "change": far} for name, far in change[:WEIGHTS]],
    }
    return BinaryResponse(told, arrays)
