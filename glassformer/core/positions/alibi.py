"""ALiBi: a penalty that is linear in the distance."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from glassformer.core.pass_context import PassContext
from glassformer.core.positions.result import PositionResult
from glassformer.spec import AlibiSpec, AttentionSpec


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
