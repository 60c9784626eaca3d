"""Relative positions of Transformer-XL and XLNet.

The score of a query for a distance does not depend on the position. So a block of queries is
multiplied with the distances it can have, [query, distance], and every row is shifted by one more
than the row before: no index is gathered, and no full bias of [query, key] is created.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.pass_context import PassContext
from glassformer.errors import UnsupportedError
from glassformer.spec import AttentionPattern, AttentionSpec, RelativePositionSpec

BLOCK = 128  # queries at once: few enough to skip later keys, enough for the kernels


@dataclass
class RelativeBias:
    """A bias by distance, computed for blocks of queries and keys on demand."""

    q: Tensor  # [batch, head, query, dim], scaled
    rows: Tensor  # [head, distance, dim], from the distance of the last query to the first key
    keys: int
    query_stream: Tensor | None  # [batch, target]: slots of the query stream, the last queries
    by_segment: Tensor | None = None  # [batch, head, query, 2]: same, other segment
    other_segment: Tensor | None = None  # [batch, query, key]: whether segments differ

    @property
    def tokens(self) -> int:
        """The number of queries that are tokens; they occupy the last slots in order."""
        return self.q.shape[2] - (0 if self.query_stream is None else self.query_stream.shape[1])

    def blocks(self, pattern: AttentionPattern) -> Iterator[tuple[slice, slice]]:
        """Yields blocks of queries, each with the keys that it may see."""
        first = self.keys - self.tokens  # the first token's slot
        for start in range(0, self.tokens, BLOCK):
            stop = min(start + BLOCK, self.tokens)
            low = 0 if pattern.left is None else max(0, first + start - pattern.left)
            high = self.keys if pattern.right is None else first + stop + pattern.right
            yield slice(start, stop), slice(low, min(high, self.keys))
        if self.query_stream is not None:
            yield slice(self.tokens, self.q.shape[2]), slice(0, self.keys)

    def block(self, queries: slice, keys: slice) -> Tensor:
        """Returns the bias of [batch, head, query, key]; undefined for keys outside the pattern."""
        columns, tokens = keys.stop - keys.start, self.tokens
        if queries.start == tokens:
            assert self.query_stream is not None
            scores = self.q[:, :, queries] @ self.rows.transpose(-1, -2)
            place = torch.arange(self.keys, device=scores.device) - self.query_stream[..., None]
            place = (place + self.keys - 1).clamp(max=scores.shape[-1] - 1)
            bias = scores.gather(-1, place[:, None].expand(-1, scores.shape[1], -1, -1))
        else:
            # Query r and key c are at distance row c - r + (tokens - 1).
            met = self.rows[:, keys.start + tokens - queries.stop :]
            met = met[:, : columns + queries.stop - queries.start - 1]
            bias = shift_rows(self.q[:, :, queries] @ met.transpose(-1, -2), columns)
        if self.by_segment is not None and self.other_segment is not None:
            same, another = self.by_segment[:, :, queries].chunk(2, -1)
            bias = bias + torch.where(self.other_segment[:, None, queries, keys], another, same)
        return bias

    def dense(self) -> Tensor:
        parts = [self.block(slice(0, self.tokens), slice(0, self.keys))]
        if self.query_stream is not None:
            parts.append(self.block(slice(self.tokens, self.q.shape[2]), slice(0, self.keys)))
        return torch.cat(parts, 2)


def shift_rows(scores: Tensor, columns: int) -> Tensor:
    """Shifts [row, distance] to [row, column].

    The last row starts at its first distance, each earlier row one distance later.
    """
    size, width = scores.shape[-2:]
    if size == 1:
        return scores[..., :columns]
    flat = scores.flatten(-2)[..., size - 1 : size - 1 + size * (width - 1)]
    return flat.view(*scores.shape[:-1], width - 1)[..., :columns]


class RelativePosition(nn.Module):
    """(q + u) . k + (q + v) . W r[distance] + (q + s) . segment.

    u is added to the returned query; the other terms are the bias.
    """

    def __init__(self, spec: RelativePositionSpec, attention: AttentionSpec, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.per_layer = not spec.shared_biases
        self.width, self.heads, self.dim = width, attention.heads, attention.head_dim
        self.scale = self.dim**-0.5 if attention.scale is None else attention.scale
        self.content = nn.Parameter(torch.zeros(self.heads, self.dim))
        self.position = nn.Parameter(torch.zeros(self.heads, self.dim))
        if spec.segments:
            self.segment = nn.Parameter(torch.zeros(self.heads, self.dim))
            self.segments = nn.Parameter(torch.zeros(2, self.heads, self.dim))

    def forward(
        self, q: Tensor, k: Tensor, ctx: PassContext, attention: Any
    ) -> tuple[Tensor, Tensor, RelativeBias]:
        if ctx.prefix_length is not None and not self.spec.bidirectional:
            raise UnsupportedError(
                "This model has no relative positions for later tokens; leave `prefix_length` out."
            )
        keys = len(ctx.k_slot)
        asked = None if ctx.query_stream is None else ctx.query_stream + keys - len(ctx.q_slot)
        band = RelativeBias(
            (q + self.position[:, None]) * self.scale, self.rows(ctx, attention), keys, asked
        )
        if ctx.token_type_ids is not None:
            asking = (q + self.segment[:, None]) * self.scale
            band.by_segment = torch.einsum("bhqd,shd->bhqs", asking, self.segments)
            band.other_segment = self.other(ctx, ctx.token_type_ids)
        return q + self.content[:, None], k, band

    def rows(self, ctx: PassContext, attention: Any) -> Tensor:
        """Returns W r for every distance that occurs: [head, distance, dim].

        Distances d and -d have the same cosines and opposite sines, so each is projected once for
        both.
        """
        queries, keys = len(ctx.q_slot), len(ctx.k_slot)
        weight = attention.position_key.weight
        if self.spec not in ctx.memo:
            ctx.memo[self.spec] = [x.to(weight.dtype) for x in self.sinusoids(ctx.k_slot)]
        sin, cos = ctx.memo[self.spec]
        by_sin, by_cos = weight.split(self.width // 2, -1)
        odd, even = F.linear(sin, by_sin), F.linear(cos, by_cos)
        # One extra row lets every row of `shift_rows` begin where the next one does.
        after = queries if self.spec.bidirectional else min(2, queries)
        distances = torch.arange(keys - 1, -after, -1, device=odd.device).clamp(
            1 - len(odd), len(odd) - 1
        )
        rows = torch.cat(((even + odd)[distances[:keys]], (even - odd)[-distances[keys:]]))
        return rows.view(-1, self.heads, self.dim).transpose(0, 1)

    def sinusoids(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Returns sines and cosines of the distances from 0 on, in float32 as published."""
        pair = torch.arange(0, self.width, 2, dtype=torch.float32, device=slots.device)
        frequency = 1 / 10_000 ** (pair / self.width)
        farthest = len(slots) if self.spec.clamp_length is None else self.spec.clamp_length + 1
        angle = slots[:farthest, None].float() * frequency
        return angle.sin(), angle.cos()

    def other(self, ctx: PassContext, segments: Tensor) -> Tensor:
        """Whether query and key belong to different segments: [batch, query, key]."""
        if "segments" not in ctx.memo:
            own = segments[:, -len(ctx.q_slot) :]
            if ctx.query_stream is not None:
                own = torch.cat((own, own.gather(1, ctx.query_stream)), 1)
            ctx.memo["segments"] = own[:, :, None] != segments[:, None]
        found: Tensor = ctx.memo["segments"]
        return found
