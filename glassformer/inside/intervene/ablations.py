"""Heads and layers off or scaled, a direction added, a patch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from glassformer.inside.capture.model_inputs import Text
from glassformer.inside.capture.names import full_name, names_of
from glassformer.inside.intervene.edit import Edit
from glassformer.spec import ModelSpec


def ablate_heads(layer: int, heads: Sequence[int], stack: str = "", cross: bool = False) -> Edit:
    """Heads say nothing; those of cross-attention, if asked for."""
    return scale_heads(layer, heads, 0.0, stack, cross)


def scale_heads(
    layer: int, heads: Sequence[int], factor: float, stack: str = "", cross: bool = False
) -> Edit:
    """Heads say `factor` times what they say."""
    at = f"{stack and stack + '.'}blocks.{layer}.{'cross.' if cross else ''}z"
    return Edit(kind="scale", at=at, heads=tuple(heads), factor=factor)


def ablate_layer(layer: int, spec: ModelSpec, stack: str = "") -> list[Edit]:
    """A layer hands on what it reads; where a norm follows each part, that norm still does."""
    front = full_name(spec, f"{stack and stack + '.'}blocks.{layer}.")
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
    """Adds a direction to the stream behind a layer."""
    at = f"{stack and stack + '.'}blocks.{layer}.resid_post"
    where = None if positions is None else tuple(positions)
    return Edit(kind="add", at=at, vector=vector, factor=factor, positions=where)


def patch(
    at: str,
    source: Text,
    positions: Sequence[Any] | None = None,
    heads: Sequence[int] | None = None,
) -> Edit:
    """Puts there what another text has there."""
    return Edit(
        kind="patch",
        at=at,
        source=source,
        positions=None if positions is None else tuple(positions),
        heads=None if heads is None else tuple(heads),
    )
