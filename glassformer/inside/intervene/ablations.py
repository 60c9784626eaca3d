"""Constructors for common edits: ablation and scaling of heads and layers, steering, patching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from glassformer.inside.capture.model_inputs import Text
from glassformer.inside.capture.names import full_name, in_stack, names_of
from glassformer.inside.intervene.edit import Edit
from glassformer.spec import ModelSpec


def ablate_heads(layer: int, heads: Sequence[int], stack: str = "", cross: bool = False) -> Edit:
    """Returns an edit that sets the output of heads to zero.

    Args:
        layer: The layer.
        heads: The heads.
        stack: "encoder" or "decoder", by default the last stack.
        cross: Whether the heads are those of cross-attention.

    Returns:
        The edit.
    """
    return scale_heads(layer, heads, 0.0, stack, cross)


def scale_heads(
    layer: int, heads: Sequence[int], factor: float, stack: str = "", cross: bool = False
) -> Edit:
    """Returns an edit that multiplies the output of heads by a factor.

    Args:
        layer: The layer.
        heads: The heads.
        factor: The factor.
        stack: "encoder" or "decoder"; may be empty if the model has one stack.
        cross: Whether the heads are those of cross-attention.

    Returns:
        The edit.
    """
    at = in_stack(stack, f"blocks.{layer}.{'cross.' if cross else ''}z")
    return Edit(kind="scale", at=at, heads=tuple(heads), factor=factor)


def ablate_layer(layer: int, spec: ModelSpec, stack: str = "") -> list[Edit]:
    """Returns edits that set the outputs of a layer's components to zero.

    The layer then passes its input on; in a post-norm model, the norms after the components still
    apply.

    Args:
        layer: The layer.
        spec: The specification of the model.
        stack: "encoder" or "decoder", by default the last stack.

    Returns:
        The edits.
    """
    front = full_name(spec, in_stack(stack, f"blocks.{layer}."))
    parts = ("attn_out", "cross.attn_out", "ffn_out")
    there = [f"{front}{part}" for part in parts if f"{front}{part}" in names_of(spec)]
    return [Edit(kind="scale", at=name, factor=0.0) for name in there]


def steer(
    layer: int,
    vector: Sequence[float] | Tensor,
    factor: float = 1.0,
    positions: Sequence[int] | None = None,
    stack: str = "",
) -> Edit:
    """Returns an edit that adds `factor` times a vector to the residual stream after a layer.

    Args:
        layer: The layer.
        vector: The direction, [width].
        factor: The multiplier.
        positions: The positions to edit, None for all.
        stack: "encoder" or "decoder", by default the last stack.

    Returns:
        The edit.
    """
    at = in_stack(stack, f"blocks.{layer}.resid_post")
    where = None if positions is None else tuple(positions)
    return Edit(kind="add", at=at, vector=vector, factor=factor, positions=where)


def patch(
    at: str,
    source: Text,
    positions: Sequence[Any] | None = None,
    heads: Sequence[int] | None = None,
) -> Edit:
    """Returns an edit that replaces activations by those of another text.

    Args:
        at: The hook point name or shell pattern.
        source: The other text.
        positions: Positions, or pairs (here, in the source); None for all.
        heads: The heads, None for all.

    Returns:
        The edit.
    """
    return Edit(
        kind="patch",
        at=at,
        source=source,
        positions=None if positions is None else tuple(positions),
        heads=None if heads is None else tuple(heads),
    )
