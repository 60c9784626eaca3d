"""Room 3, core: DeBERTa's positions, where content and position score each other.

The score of a query for a key at some distance is the same row of a table wherever they stand. So
each query is multiplied with all distances that occur, [query, distance], and the band that belongs
to the keys is cut out by moving every row one place further: no index is gathered.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.context import Context
from glassformer.core.norm import make_norm
from glassformer.spec import Attention, Disentangled


class DisentangledPosition(nn.Module):
    per_layer: ClassVar[bool] = False

    def __init__(self, spec: Disentangled, attention: Attention, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.heads, self.dim = attention.heads, attention.head_dim
        self.scale = self.dim**-0.5 if attention.scale is None else attention.scale
        self.weight = nn.Parameter(torch.zeros(2 * spec.span, width))
        if spec.norm is not None:
            self.norm = make_norm(width, spec.norm)

    def forward(
        self, q: Tensor, k: Tensor, ctx: Context, attention: Any
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        length = q.shape[2]
        if "distances" not in ctx.memo:
            table = self.weight if self.spec.norm is None else self.norm(self.weight)
            farther = torch.arange(1 - length, length, device=q.device)  # key - query, ascending
            ctx.memo["distances"] = table, self.rows(-farther), self.rows(farther)
        table, by_query, by_key = ctx.memo["distances"]
        bias = None
        if self.spec.to_position:
            keys = self.project(attention, "key", table)[:, by_query]  # [head, distance, dim]
            bias = band(q @ keys.transpose(-1, -2), length)
        if self.spec.to_content:
            queries = self.project(attention, "query", table)[:, by_key]
            other = band(k @ queries.transpose(-1, -2), length).transpose(-1, -2)
            bias = other if bias is None else bias + other
        return q, k, bias

    def project(self, attention: Any, part: str, table: Tensor) -> Tensor:
        """The table as keys or queries of each head, scaled: [head, row, dim]."""
        if self.spec.shared:
            qkv, height = attention.qkv, self.heads * self.dim
            own = slice(0, height) if part == "query" else slice(height, 2 * height)
            bias = qkv.whole_bias
            rows = F.linear(table, qkv.weight[own], None if bias is None else bias[own])
        else:
            rows = getattr(attention, f"position_{part}")(table)
        return rows.view(-1, self.heads, self.dim).transpose(0, 1) * self.scale

    def rows(self, distance: Tensor) -> Tensor:
        """The table's row for query - key = `distance`."""
        span = self.spec.span
        if self.spec.max_distance is not None:
            distance = log_buckets(distance, span, self.spec.max_distance)
        return (distance + span).clamp(0, 2 * span - 1)


def band(scores: Tensor, length: int) -> Tensor:
    """From [row, distance] to [row, column], where column - row = distance - (length - 1)."""
    flat = scores.flatten(-2)[..., length - 1 : length - 1 + length * (2 * length - 2)]
    if length == 1:
        return scores
    return flat.view(*scores.shape[:-1], 2 * length - 2)[..., :length]


def log_buckets(distance: Tensor, span: int, max_distance: int) -> Tensor:
    """Distances up to span / 2 as they are, longer ones on a log scale up to `span`."""
    middle = span // 2
    size = distance.abs().clamp(min=middle - 1)
    octaves = math.log((max_distance - 1) / middle)
    far = torch.ceil(torch.log(size / middle) / octaves * (middle - 1)).long() + middle
    return torch.where(size <= middle, distance, far * distance.sign())
