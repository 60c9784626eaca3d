"""DeBERTa's disentangled positions: content-to-position and position-to-content scores.

The score of a query for a key at some distance uses the same row of a table wherever they are. So
each query is multiplied with the distances that occur, [query, distance], and the band that belongs
to the keys is cut out by shifting every row by one: no index is gathered. This is done per block,
so that a block of queries is multiplied only with the distances it can have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.linear import Linear
from glassformer.core.norm import make_norm
from glassformer.core.pass_context import PassContext
from glassformer.core.positions.transformer_xl import shift_rows
from glassformer.core.versioning import TensorVersion, one_call
from glassformer.spec import AttentionSpec, DisentangledSpec

BLOCK = 64  # rows at once: their scores stay in the CPU cache


class DisentangledPosition(nn.Module):
    """Adds DeBERTa's position scores as a bias."""

    per_layer: ClassVar[bool] = False

    def __init__(self, spec: DisentangledSpec, attention: AttentionSpec, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.heads, self.dim = attention.heads, attention.head_dim
        self.scale = self.dim**-0.5 if attention.scale is None else attention.scale
        self.weight = nn.Parameter(torch.zeros(2 * spec.span, width))
        if spec.norm is not None:
            self.norm = make_norm(width, spec.norm)
        self._packed: dict[tuple[nn.Module, str], tuple[Tensor, TensorVersion]] = {}

    def forward(
        self, q: Tensor, k: Tensor, ctx: PassContext, attention: Any
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        if not (self.spec.content_to_position or self.spec.position_to_content):
            return q, k, None
        length = q.shape[2]
        if "distances" not in ctx.memo:
            farther = torch.arange(1 - length, length, device=q.device)  # key - query, ascending
            ctx.memo["distances"] = self.table(), self.rows(-farther), self.rows(farther)
            ctx.memo["checksums"] = {}
        table, by_query, by_key = ctx.memo["distances"]
        checksums = ctx.memo["checksums"]
        bias = self.storage(q, ctx)
        if self.spec.position_to_content:  # first, as writing across rows is cheaper than adding
            queries = self.projected(attention, "query", table, checksums)[
                :, by_key
            ]  # [head, distance, dim]
            for columns, scores in bands(k, queries):
                bias[..., columns] = scores.transpose(-1, -2)
        else:
            bias.zero_()
        if self.spec.content_to_position:
            keys = self.projected(attention, "key", table, checksums)[:, by_query]
            for rows, scores in bands(q, keys):
                bias[:, :, rows] += scores
        return q, k, bias

    def storage(self, q: Tensor, ctx: PassContext) -> Tensor:
        """Returns storage of [batch, head, query, key], shared by all layers without gradients."""
        if torch.is_grad_enabled():
            return q.new_empty(*q.shape[:3], q.shape[2])
        if "bias" not in ctx.memo:
            ctx.memo["bias"] = q.new_empty(*q.shape[:3], q.shape[2])
        bias: Tensor = ctx.memo["bias"]
        return bias

    def table(self) -> Tensor:
        return self.weight if self.spec.norm is None else self.norm(self.weight)

    def pack(self, attention: Any) -> None:
        """Keeps a layer's projections of the table, which are the same for every text."""
        terms = {"query": self.spec.position_to_content, "key": self.spec.content_to_position}
        for part in (part for part, used in terms.items() if used):
            with torch.no_grad():
                rows = self.project(attention, part, self.table())
            self._packed[attention, part] = rows, TensorVersion(*self.sources(attention, part))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": {}}

    def projected(
        self, attention: Any, part: str, table: Tensor, checksums: dict[Any, int] | None = None
    ) -> Tensor:
        kept = self._packed.get((attention, part))
        if kept is not None and not torch.is_grad_enabled() and not torch.compiler.is_compiling():
            rows, origin = kept
            with one_call(checksums):
                if origin.matches(*self.sources(attention, part)):
                    return rows
        return self.project(attention, part, table)

    def project(self, attention: Any, part: str, table: Tensor) -> Tensor:
        """Projects the table to scaled keys or queries of each head: [head, row, dim]."""
        linear, height = self.linear(attention, part), self.heads * self.dim
        first = height if self.spec.shared_projections and part == "key" else 0
        own = slice(first, first + height)
        if self.spec.shared_projections and not linear._forward_hooks:
            bias = linear.full_bias
            rows = F.linear(table, linear.weight[own], None if bias is None else bias[own])
        else:  # called as a module, so that adapters take effect
            rows = linear(table)[:, own]
        return rows.view(-1, self.heads, self.dim).transpose(0, 1) * self.scale

    def linear(self, attention: Any, part: str) -> Linear:
        name = "qkv" if self.spec.shared_projections else f"position_{part}"
        found: Linear = getattr(attention, name)
        return found

    def sources(self, attention: Any, part: str) -> list[Tensor]:
        return [*self.parameters(), *self.linear(attention, part).parameters()]

    def rows(self, distance: Tensor) -> Tensor:
        """Returns the table's row for query - key = `distance`."""
        span = self.spec.span
        if self.spec.max_distance is not None:
            distance = log_buckets(distance, span, self.spec.max_distance)
        return (distance + span).clamp(0, 2 * span - 1)


def bands(rows: Tensor, distances: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yields slices of rows with rows @ distances^T, shifted from [row, distance] to [row, column].

    The distance of row r and column c is entry c - r + (length - 1).
    """
    length = rows.shape[2]
    for start in range(0, length, BLOCK):
        stop = min(start + BLOCK, length)
        met = distances[:, length - stop : 2 * length - 1 - start]  # of rows stop-1 down to start
        scores = rows[:, :, start:stop] @ met.transpose(-1, -2)  # [row, distance]
        yield slice(start, stop), shift_rows(scores, length)


def log_buckets(distance: Tensor, span: int, max_distance: int) -> Tensor:
    """Keeps distances up to span / 2, and maps longer ones to a log scale up to `span`."""
    middle = span // 2
    size = distance.abs().clamp(min=middle - 1)
    octaves = math.log((max_distance - 1) / middle)
    far = torch.ceil(torch.log(size / middle) / octaves * (middle - 1)).long() + middle
    return torch.where(size <= middle, distance, far * distance.sign())
