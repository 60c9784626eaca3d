"""Rotary position embedding: rotates queries and keys by their positions."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from glassformer.core.pass_context import PassContext
from glassformer.core.positions.result import PositionResult
from glassformer.spec import AttentionSpec, RotaryScaling, RotarySpec


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
