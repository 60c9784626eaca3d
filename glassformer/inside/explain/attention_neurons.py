"""The computation of one query's attention, element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from glassformer.errors import ConfigError
from glassformer.inside.capture.named_tensor import NamedTensor, check_index
from glassformer.inside.displayable import Displayable
from glassformer.inside.explain.recompute import array, layer_of

if TYPE_CHECKING:
    from glassformer.inside.capture.stack_view import StackTensors


@dataclass(frozen=True)
class AttentionNeurons(Displayable):
    """The intermediate values of one query's attention.

    Attributes:
        arrays: q [dim], k and product (q * k) [key, dim]; dot, scores (scaled, biased, masked) and
            pattern [key]; and bias [key] if positions add one.
        scale: The scale of the scores.
        key_head: The head whose keys are read, if heads share keys.
    """

    arrays: dict[str, NamedTensor]
    scale: float
    key_head: int

    def _repr_html_(self) -> str:
        from glassformer.inside.show.pictures import arrays_html

        return arrays_html(self.heading, self.arrays)

    @property
    def heading(self) -> str:
        return "One query and its keys"


def attention_neurons(side: StackTensors, layer: int, head: int, query: int) -> AttentionNeurons:
    """Returns the intermediate values of the attention of one query in one head.

    Args:
        side: A view, one of its stacks, or its cross-attention.
        layer: The layer.
        head: The head.
        query: The query position.

    Returns:
        The intermediate values.
    """
    side = side.stack_view
    front = side.name(layer, "pattern").removesuffix("pattern")  # raises if there is none
    view = side.view
    at = layer_of(view, side.stack, layer % len(side.spec.order))
    if at is None:
        raise ConfigError(f"Layer {layer} of the {side.stack} has no attention.")
    spec = at.attention(side.scope)
    check_index(head, spec.heads, "head")
    check_index(query, len(side.tokens), "query")
    group = spec.heads // spec.key_heads
    view.capture([f"{front}{name}" for name in ("q", "k", "scores", "pattern")])
    q, k = view.tap(f"{front}q")[head, query], view.tap(f"{front}k")[head // group]
    found = {
        "q": q,
        "k": k,
        "scores": view.tap(f"{front}scores")[head, query],
        "pattern": view.tap(f"{front}pattern")[head, query],
    }
    if spec.score == "dot":
        found["product"] = NamedTensor(q.array * k.array, k.axes, k.labels, "q * k")
        found["dot"] = array(view, f"{front}dot")[head, query]
        added = array(view, f"{front}bias")[head, query]
        if added.array.abs().max() > 1e-6:
            found["bias"] = added
    return AttentionNeurons(found, float(at.module(side.scope).attend.scale), head // group)
