"""Learned vectors per clipped distance (Shaw et al.; Music Transformer)."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.pass_context import PassContext
from glassformer.core.positions.result import PositionResult
from glassformer.spec import AttentionSpec, ShawSpec


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
