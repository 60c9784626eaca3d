"""T5's relative position bias: one learned number per head and bucket of distances."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from glassformer.core.pass_context import PassContext
from glassformer.core.positions.result import PositionResult
from glassformer.spec import AttentionSpec, T5BiasSpec


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
