"""Position encodings inside attention: rotary, T5, ALiBi and Shaw.

Each module maps (q, k, ctx, attention) to (q, k, bias): rotary rotates queries and keys, the others
return a bias of [batch or 1, head, query, key] that is added to the scaled scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.pass_context import PassContext
from glassformer.core.positions.deberta import DisentangledPosition
from glassformer.core.positions.transformer_xl import RelativePosition
from glassformer.spec import (
    AlibiSpec,
    AttentionSpec,
    DisentangledSpec,
    PositionSpec,
    RelativePositionSpec,
    RotaryScaling,
    RotarySpec,
    ShawSpec,
    T5BiasSpec,
)

PositionResult = tuple[Tensor, Tensor, Tensor | None]


class RotaryPosition(nn.Module):
    """Rotary position embedding."""

    per_layer: ClassVar[bool] = False

    def __init__(self, spec: RotarySpec, attention: AttentionSpec, width: int) -> None:
        super().__init__()
        self.spec = spec

    def forward(
        self, q: Tensor, k: Tensor, ctx: PassContext, attention: nn.Module
    ) -> PositionResult:
        if self not in ctx.memo:
            ctx.memo[self] = self.angles(ctx.q_pos, q.dtype)
        cos, sin = ctx.memo[self]
        return self.rotate(q, cos, sin), self.rotate(k, cos, sin), None

    def angles(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Returns cosines and sines of [batch or 1, 1, position, dim]."""
        frequencies = rotary_frequencies(self.spec, positions.device)
        angle = positions[..., None].float() * frequencies
        halves = self.spec.pairing == "halves"
        doubled = torch.cat((angle, angle), -1) if halves else angle.repeat_interleave(2, -1)
        doubled = doubled[:, None]
        magnitude = 1.0 if self.spec.scaling is None else self.spec.scaling.magnitude
        return (doubled.cos() * magnitude).to(dtype), (doubled.sin() * magnitude).to(dtype)

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        dim = self.spec.dim
        turned, rest = x[..., :dim], x[..., dim:]
        if self.spec.pairing == "halves":
            first, second = turned.chunk(2, -1)
            quarter = torch.cat((-second, first), -1)
        else:
            quarter = torch.stack((-turned[..., 1::2], turned[..., ::2]), -1).flatten(-2)
        turned = turned * cos + quarter * sin
        return turned if dim == x.shape[-1] else torch.cat((turned, rest), -1)


def rotary_frequencies(spec: RotarySpec, device: torch.device) -> Tensor:
    """Returns radians per position, [dim / 2], in float32 as the published models compute them."""
    exponent = torch.arange(0, spec.dim, 2, dtype=torch.float32, device=device) / spec.dim
    periods = spec.theta**exponent
    return 1.0 / periods if spec.scaling is None else _stretched(spec, spec.scaling, periods)


def _stretched(spec: RotarySpec, scaling: RotaryScaling, periods: Tensor) -> Tensor:
    plain = 1.0 / periods
    if scaling.kind == "linear":
        return plain / scaling.factor
    if scaling.kind == "llama3":
        wavelength = 2 * math.pi / plain
        turns = scaling.trained_length / wavelength
        smooth = (turns - scaling.low) / (scaling.high - scaling.low)
        between = (1 - smooth) * plain / scaling.factor + smooth * plain
        slow = torch.where(turns < scaling.low, plain / scaling.factor, between)
        return torch.where(turns > scaling.high, plain, slow)

    def dimension(turns: float) -> float:
        share = math.log(scaling.trained_length / (turns * 2 * math.pi))
        return spec.dim * share / (2 * math.log(spec.theta))

    low, high = dimension(scaling.high), dimension(scaling.low)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, spec.dim - 1)
    steps = torch.arange(spec.dim // 2, dtype=torch.float32, device=periods.device)
    keep = 1 - ((steps - low) / (high - low or 0.001)).clamp(0, 1)
    return 1.0 / (scaling.factor * periods) * (1 - keep) + plain * keep


class T5Bias(nn.Module):
    """T5's bias: small distances have their own buckets, larger ones share them on a log scale."""

    per_layer: ClassVar[bool] = False

    def __init__(self, spec: T5BiasSpec, attention: AttentionSpec, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.weight = nn.Parameter(torch.zeros(spec.num_buckets, attention.heads))

    def forward(
        self, q: Tensor, k: Tensor, ctx: PassContext, attention: nn.Module
    ) -> PositionResult:
        if self not in ctx.memo:
            distance = ctx.k_slot[None, :] - ctx.q_slot[:, None]
            bias = self.weight[self.bucket(distance)]  # [query, key, head]
            ctx.memo[self] = bias.permute(2, 0, 1)[None].to(q.dtype)
        return q, k, ctx.memo[self]

    def bucket(self, distance: Tensor) -> Tensor:
        buckets, first = self.spec.num_buckets, torch.zeros_like(distance)
        if self.spec.bidirectional:
            buckets //= 2
            first = (distance > 0) * buckets
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        exact = buckets // 2
        octaves = math.log(self.spec.max_distance / exact)
        far = exact + (torch.log(distance.float() / exact) / octaves * (buckets - exact)).long()
        return first + torch.where(distance < exact, distance, far.clamp(max=buckets - 1))


class AlibiBias(nn.Module):
    """-slope * distance, with slopes in geometric progression over the heads (Press et al.)."""

    per_layer: ClassVar[bool] = False

    def __init__(self, spec: AlibiSpec, attention: AttentionSpec, width: int) -> None:
        super().__init__()
        self.heads = attention.heads

    def forward(
        self, q: Tensor, k: Tensor, ctx: PassContext, attention: nn.Module
    ) -> PositionResult:
        if self not in ctx.memo:
            distance = (ctx.k_slot[None, :] - ctx.q_slot[:, None]).abs()
            slopes = torch.tensor(alibi_slopes(self.heads), device=q.device)
            ctx.memo[self] = (-slopes[:, None, None] * distance)[None].to(q.dtype)
        return q, k, ctx.memo[self]


def alibi_slopes(heads: int) -> list[float]:
    """Returns the slopes 2^(-8/n), 2^(-16/n), ... if the number of heads n is a power of two.

    Otherwise these are the slopes of the next lower power, followed by every other slope of the
    next higher one.
    """
    power = 1 << (heads.bit_length() - 1)
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    between = [2 ** (-4 * (i + 1) / power) for i in range(2 * power)]
    return slopes + between[0::2][: heads - power]


class ShawPosition(nn.Module):
    """score += q . a[distance]; with `values`, output += sum of pattern * b[distance].

    Every query is multiplied with the vectors of the distances that occur, and the result is
    shifted to the positions of the keys (`skew`): no vector is repeated for a pair of query and
    key.
    """

    per_layer: ClassVar[bool] = True

    def __init__(self, spec: ShawSpec, attention: AttentionSpec, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.scale = attention.scale or attention.head_dim**-0.5
        self.nearest = 0 if spec.backward else spec.max_distance
        shape = [spec.max_distance + self.nearest + 1, attention.head_dim]
        if spec.per_head:
            shape = [attention.heads, *shape]  # [head, row, dim]
        self.keys = nn.Parameter(torch.zeros(shape))
        self.values = nn.Parameter(torch.zeros(shape)) if spec.values else None

    @property
    def adds_values(self) -> bool:
        return self.values is not None

    def forward(
        self, q: Tensor, k: Tensor, ctx: PassContext, attention: nn.Module
    ) -> PositionResult:
        queries, keys = len(ctx.q_slot), len(ctx.k_slot)
        # later keys need scores only for a prefix, which earlier tokens see too
        ahead = 0 if self.spec.backward and ctx.prefix_length is None else queries - 1
        distance = torch.arange(1 - keys, ahead + 1, device=q.device)  # key - query
        vectors = self.keys[..., self.row(distance), :]
        by_distance = q @ (vectors * self.scale).transpose(-1, -2)  # [..., query, distance]
        return q, k, skew(by_distance, keys)

    def add_values(self, z: Tensor, pattern: Tensor, ctx: PassContext) -> Tensor:
        assert self.values is not None
        rows = self.row(ctx.k_slot[None, :] - ctx.q_slot[:, None]).expand_as(pattern)
        by_distance = pattern.new_zeros(*pattern.shape[:-1], self.values.shape[-2])
        return z + by_distance.scatter_add(-1, rows, pattern) @ self.values

    def row(self, distance: Tensor) -> Tensor:
        reach = self.spec.max_distance
        return distance.clamp(-reach, self.nearest) + reach


def skew(by_distance: Tensor, keys: int) -> Tensor:
    """Shifts [query, distance] to [query, key] (Huang et al., 3.4).

    Distances ascend to key - query = 0 for the last query and key, and may go beyond. With one
    column prepended, each row of the flattened tensor starts one place before the previous row.
    Entries beyond the last distance get the number of another pair, and must be masked.
    """
    queries, distances = by_distance.shape[-2:]
    flat = F.pad(by_distance, (1, 0)).flatten(-2)[..., queries:]
    return flat.view(*flat.shape[:-1], queries, distances)[..., :keys]


MODULES: dict[type, Callable[..., nn.Module]] = {
    DisentangledSpec: DisentangledPosition,
    RelativePositionSpec: RelativePosition,
    RotarySpec: RotaryPosition,
    T5BiasSpec: T5Bias,
    AlibiSpec: AlibiBias,
    ShawSpec: ShawPosition,
}


def make_position(spec: PositionSpec, attention: AttentionSpec, width: int) -> nn.Module:
    return MODULES[type(spec)](spec, attention, width)
