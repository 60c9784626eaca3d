"""Room 3, core: which keys a query may see, from a block's pattern and the texts at hand."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.core.context import Context
from glassformer.core.permutation import Permutation
from glassformer.spec import CAUSAL, FULL, Pattern


class Visible(NamedTuple):
    """Either a mask that broadcasts to [batch, head, query, key], True where a key is seen, or a
    case that fused kernels know by themselves: all keys (no mask), or `causal`, perhaps each
    `block` for itself.

    `blind` are the queries that see nothing, [batch, 1, query, 1], where a kernel must be told.
    """

    mask: Tensor | None = None
    causal: bool = False
    block: int | None = None
    blind: Tensor | None = None

    def part(self, ctx: Context, queries: slice, keys: slice) -> Visible:
        """The same for some of the queries and keys."""
        if self.causal:
            query, key = ctx.q_slot[queries, None], ctx.k_slot[keys]
            size = self.block or len(ctx.k_slot)
            return Visible((key <= query) & (key // size == query // size))
        if self.mask is None:
            return self
        rows = queries if self.mask.shape[2] > 1 else slice(None)
        blind = None if self.blind is None else self.blind[:, :, rows]
        return Visible(self.mask[:, :, rows, keys], blind=blind)


def visible(ctx: Context, pattern: Pattern) -> Visible:
    """What self-attention with this pattern sees; worked out once a pass."""
    key = ("visible", pattern)
    if key not in ctx.memo:
        ctx.memo[key] = _visible(ctx, pattern)
    seen: Visible = ctx.memo[key]
    return seen


def memory_visible(ctx: Context) -> Visible:
    """What cross-attention sees: all real tokens of the other stack."""
    return Visible() if ctx.memory_mask is None else keys_visible(ctx.memory_mask)


def keys_visible(real: Tensor) -> Visible:
    """Of [batch, key] the same keys for every query."""
    return with_blind(real[:, None, None, :])


def with_blind(mask: Tensor) -> Visible:
    """The kernels of a GPU leave the result of a row that sees nothing undefined."""
    return Visible(mask, blind=~mask.any(-1, keepdim=True) if mask.is_cuda else None)


def _visible(ctx: Context, pattern: Pattern) -> Visible:
    if ctx.permutation is not None:
        return with_blind(_permuted(ctx, pattern, ctx.permutation)[:, None])
    queries, keys = len(ctx.q_slot), len(ctx.k_slot)
    plain = ctx.key_mask is None and ctx.documents is None and ctx.prefix is None
    if plain and pattern == FULL:
        return Visible()
    if plain and pattern == CAUSAL:
        if queries == 1:  # the newest token sees everything before it
            return Visible()
        if queries == keys:
            return Visible(causal=True)
    if plain and queries == keys and pattern == replace(CAUSAL, block=pattern.block):
        return Visible(causal=True, block=pattern.block)

    mask = None
    if pattern != FULL:
        mask = within(pattern, ctx.q_slot[:, None], ctx.k_slot[None, :])[None, None]
    if pattern.block is not None and mask is not None:
        block = (ctx.places // pattern.block)[:, None]  # [batch or 1, 1, key]
        mask = mask & (block[..., -queries:, None] == block[..., None, :])
    if ctx.prefix is not None and mask is not None:
        mask = mask | (ctx.k_slot < ctx.prefix[:, None])[:, None, None, :]
    if ctx.documents is not None:
        own = ctx.documents[:, -queries:, None] == ctx.documents[:, None, :]
        mask = own[:, None] if mask is None else mask & own[:, None]
    if ctx.key_mask is not None:
        real = ctx.key_mask[:, None, None, :]
        mask = real if mask is None else mask & real
    return Visible() if mask is None else with_blind(mask)


def _permuted(ctx: Context, pattern: Pattern, order: Permutation) -> Tensor:
    """[batch, query, key]: tokens see themselves in any order, queries that only ask don't."""
    hidden = order.over(len(ctx.k_slot))
    query, key = ctx.q_slot[:, None], ctx.k_slot
    mask = (within(pattern, query, key) & ~hidden) | (query == key)
    if order.targets is not None:
        rows = order.targets[..., None]
        asking = within(pattern, rows + ctx.q_slot[0], key)
        asking = asking & ~hidden.gather(1, rows.expand(-1, -1, len(key)))
        mask = torch.cat((mask, asking), 1)
    return mask if ctx.key_mask is None else mask & ctx.key_mask[:, None]


def within(pattern: Pattern, query: Tensor, key: Tensor) -> Tensor:
    """Whether slots `key` lie in the pattern's reach of slots `query`."""
    distance = key - query
    seen = distance == distance
    if pattern.left is not None:
        seen = seen & (distance >= -pattern.left)
    if pattern.right is not None:
        seen = seen & (distance <= pattern.right)
    if pattern.dilation > 1:
        seen = seen & (distance % pattern.dilation == 0)
    return seen
