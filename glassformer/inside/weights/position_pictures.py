"""Conversion of position modules to named tensors for display."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from glassformer.core.positions.alibi import AlibiBias, alibi_slopes
from glassformer.core.positions.deberta import DisentangledPosition
from glassformer.core.positions.rotary import RotaryPosition, rotary_frequencies
from glassformer.core.positions.shaw import ShawPosition
from glassformer.core.positions.t5_bias import T5Bias
from glassformer.core.positions.transformer_xl import RelativePosition
from glassformer.core.stack import Stack
from glassformer.inside.capture.named_tensor import NamedTensor

Drawn = tuple[str, str, dict[str, Any], dict[str, NamedTensor]]
"""Kind, title, facts and arrays: see `positions.Picture`."""


def slots_of(stack: Stack, length: int) -> Tensor:
    return torch.arange(length, device=next(stack.parameters()).device)


def _by_distance(bias: Tensor) -> tuple[Tensor, list[str]]:
    """Reduces [head, query, key] to [head, distance], where the distance is key - query.

    The values are those of the first and the last query.
    """
    last, first = bias[:, -1, :-1], bias[:, 0]
    size = bias.shape[-1]
    return torch.cat((last, first), -1), [str(d) for d in range(1 - size, size)]


def _bias(bias: Tensor, title: str) -> dict[str, NamedTensor]:
    heads = [str(i) for i in range(len(bias))]
    curve, distances = _by_distance(bias)
    return {
        "bias": NamedTensor(bias, ("head", "query", "key"), {"head": heads}, title),
        "by_distance": NamedTensor(
            curve, ("head", "distance"), {"head": heads, "distance": distances}, title
        ),
    }


def _buckets(module: T5Bias, block: Any, stack: Stack, length: int) -> Drawn:
    slots = slots_of(stack, length)
    distance = slots[None, :] - slots[:, None]
    bucket = module.bucket(distance)
    bias = module.weight[bucket].permute(2, 0, 1).float()
    arrays = _bias(bias, "bias by bucket of distance")
    arrays["buckets"] = NamedTensor(bucket, ("query", "key"), {}, "bucket of a distance")
    spec = module.spec
    facts = {
        "buckets": spec.num_buckets,
        "max_distance": spec.max_distance,
        "bidirectional": spec.bidirectional,
    }
    return "bias", "a learned bias by distance", facts, arrays


def _alibi(module: AlibiBias, block: Any, stack: Stack, length: int) -> Drawn:
    slots, slopes = slots_of(stack, length), alibi_slopes(module.heads)
    distance = (slots[None, :] - slots[:, None]).abs()
    bias = -torch.tensor(slopes, device=slots.device)[:, None, None] * distance
    return "bias", "a penalty that grows with distance", {"slopes": slopes}, _bias(bias, "ALiBi")


def _rotary(module: RotaryPosition, block: Any, stack: Stack, length: int) -> Drawn:
    """Angles in radians, and the similarity of a vector to itself at a distance."""
    slots = slots_of(stack, length)
    frequencies = rotary_frequencies(module.spec, slots.device)
    angles = slots[:, None] * frequencies  # [position, pair]
    spec = module.spec
    facts = {
        "theta": spec.theta,
        "dim": spec.dim,
        "head_dim": block.spec.attention.head_dim,
        "pairing": spec.pairing,
        "scaling": None if spec.scaling is None else spec.scaling.kind,
        "wavelengths": (2 * torch.pi / frequencies).tolist(),
    }
    places = [str(i) for i in range(length)]
    return (
        "rotary",
        "queries and keys are turned",
        facts,
        {
            "angles": NamedTensor(
                angles, ("position", "pair"), {"position": places}, "angle (radians)"
            ),
            "cosines": NamedTensor(
                angles.cos(), ("position", "pair"), {"position": places}, "cosine"
            ),
            "likeness": NamedTensor(
                angles.cos().mean(-1),
                ("distance",),
                {"distance": places},
                "mean cosine by distance",
            ),
        },
    )


def _shaw(module: ShawPosition, block: Any, stack: Stack, length: int) -> Drawn:
    keys = module.keys if module.keys.ndim == 3 else module.keys[None]
    reach, nearest = module.spec.max_distance, module.nearest
    distances = [str(d) for d in range(-reach, nearest + 1)]
    arrays = {
        "keys": NamedTensor(
            keys.float(), ("head", "distance", "dim"), {"distance": distances}, "vectors for keys"
        )
    }
    if module.values is not None:
        values = module.values if module.values.ndim == 3 else module.values[None]
        arrays["values"] = NamedTensor(
            values.float(), ("head", "distance", "dim"), {"distance": distances}, "for values"
        )
    facts = {"max_distance": reach, "per_head": module.spec.per_head}
    return "distances", "a learned vector by distance", facts, arrays


def _relative(module: RelativePosition, block: Any, stack: Stack, length: int) -> Drawn:
    sin, cos = module.sinusoids(slots_of(stack, length))
    rows = torch.cat((sin, cos), -1)
    labels = {"distance": [str(i) for i in range(len(rows))]}
    arrays = {
        "sinusoids": NamedTensor(rows, ("distance", "width"), labels, "sinusoids of the distance"),
        "content": NamedTensor(
            module.content.float(), ("head", "dim"), {}, "u, added for contents"
        ),
        "position": NamedTensor(
            module.position.float(), ("head", "dim"), {}, "v, added for positions"
        ),
    }
    facts = {"clamp": module.spec.clamp_length, "segments": module.spec.segments}
    return "distances", "sinusoids of the distance, projected in every layer", facts, arrays


def _disentangled(module: DisentangledPosition, block: Any, stack: Stack, length: int) -> Drawn:
    slots = slots_of(stack, length)
    spec = module.spec
    rows = module.rows(slots[:, None] - slots[None, :])
    arrays = {
        "table": NamedTensor(module.table().float(), ("row", "width"), {}, "a vector by distance"),
        "rows": NamedTensor(rows, ("query", "key"), {}, "the row that a pair of positions reads"),
    }
    facts = {
        "span": spec.span,
        "max_distance": spec.max_distance,
        "content_to_position": spec.content_to_position,
        "position_to_content": spec.position_to_content,
    }
    return "distances", "content and position score each other", facts, arrays


DRAW: dict[type, Callable[[Any, Any, Stack, int], Drawn]] = {
    T5Bias: _buckets,
    AlibiBias: _alibi,
    RotaryPosition: _rotary,
    ShawPosition: _shaw,
    RelativePosition: _relative,
    DisentangledPosition: _disentangled,
}
