"""Where to look first: the position, and the head that contributes most to its prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from glassformer.errors import GlassformerError
from glassformer.inside.attribute.predictions import Predicted, mask_token

if TYPE_CHECKING:
    from glassformer.inside.capture.view import View


@dataclass(frozen=True)
class Highlight:
    """A place in a model and a text.

    Attributes:
        position: The position in the last stack.
        attention_type: "encoder", "decoder" or "cross"; None if no head was found.
        layer: The layer of the head.
        head: The head.
    """

    position: int
    attention_type: str | None = None
    layer: int | None = None
    head: int | None = None


@torch.no_grad()
def highlight(view: View) -> Highlight:
    """Returns the place that tells most about a prediction.

    The position is the last token of a decoder's text, the first mask of an encoder's, and else
    that of the least certain prediction. The head is the one that contributes most to the logit of
    the predicted token or label there.

    Args:
        view: The view.

    Returns:
        The place; for a model that predicts nothing, the last token alone.
    """
    words = [at for at, token in enumerate(view.tokens) if not token.special]
    last = words[-1] if words else len(view.tokens) - 1
    try:
        predicted = Predicted(view)
    except GlassformerError:
        return Highlight(last)
    position = _position(predicted, words, last)
    row = position if predicted.what not in ("classify", "span") else 0
    place, output = predicted.logit_place(row, None)
    try:
        found = view.contributions(output, position=place, head=predicted.head.name)
    except GlassformerError:  # some heads and layers have no exact contributions
        return Highlight(position)
    heads = [part for part in found.parts if part.kind in ("head", "cross head")]
    if not heads:
        return Highlight(position)
    best = max(heads, key=lambda part: part.value)
    attention_type = "cross" if best.kind == "cross head" else view.stack
    return Highlight(position, attention_type, best.layer, best.head)


def _position(predicted: Predicted, words: list[int], last: int) -> int:
    view = predicted.view
    if predicted.what in ("classify", "span") or view.model.spec.encoder is None:
        return last
    masks = [at for at, token in enumerate(view.tokens) if token.id == mask_token(view)]
    if predicted.what == "masked" and masks:
        return masks[0]
    places = [*range(len(view.tokens))] if view.stack == "decoder" else words
    if not places:
        return last
    return places[int(predicted.entropy(predicted.logits(places)).argmax())]
