"""Room 3, core: which keys a query may see, from a block's pattern and the texts at hand."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from glassformer.core.context import Context
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
