"""Which keys a query may see, from a block's pattern and the texts at hand."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.core.pass_context import PassContext
from glassformer.core.permutation import Permutation
from glassformer.spec import CAUSAL, FULL, AttentionPattern, BlockSparsePattern


class AttentionMask(NamedTuple):
    """Either a mask that broadcasts to [batch, head, query, key], True where a key is seen, or a
    case that fused kernels know by themselves: all keys (no mask), or `causal`, perhaps each
    `block` for itself.

    `blind` are the queries that see nothing, [batch, 1, query, 1], where a kernel must be told.
    `bias` is added to the scores: the logarithm of how often a key counts.
    """

    mask: Tensor | None = None
    causal: bool = False
    block: int | None = None
    blind: Tensor | None = None
    bias: Tensor | None = None

    def part(self, ctx: PassContext, queries: slice, keys: slice) -> AttentionMask:
        """The same for some of the queries and keys."""
        if self.causal:
            query, key = ctx.q_slot[queries, None], ctx.k_slot[keys]
            size = self.block or len(ctx.k_slot)
            return AttentionMask((key <= query) & (key // size == query // size))
        if self.mask is None:
            return self
        rows = queries if self.mask.shape[2] > 1 else slice(None)
        blind = None if self.blind is None else self.blind[:, :, rows]
        return AttentionMask(self.mask[:, :, rows, keys], blind=blind)


def visible(ctx: PassContext, pattern: AttentionPattern | BlockSparsePattern) -> AttentionMask:
    """What self-attention with this pattern sees; worked out once a pass."""
    key = once("visible", ctx, pattern)
    if key not in ctx.memo:
        ctx.memo[key] = _visible(ctx, pattern)
    seen: AttentionMask = ctx.memo[key]
    return seen


def once(
    what: str, ctx: PassContext, pattern: AttentionPattern | BlockSparsePattern
) -> tuple[object, ...]:
    """The name in `ctx.memo` of what all layers of a pattern share; what is random, none do."""
    random = ctx.training and isinstance(pattern, BlockSparsePattern)
    return what, pattern, ctx.depth if random else None


def memory_visible(ctx: PassContext) -> AttentionMask:
    """What cross-attention sees: all real tokens of the other stack."""
    return AttentionMask() if ctx.memory_mask is None else keys_visible(ctx.memory_mask)


def keys_visible(real: Tensor) -> AttentionMask:
    """Of [batch, key] the same keys for every query."""
    return with_blind(real[:, None, None, :])


def with_blind(mask: Tensor, bias: Tensor | None = None) -> AttentionMask:
    """The kernels of a GPU leave the result of a row that sees nothing undefined."""
    return AttentionMask(
        mask, blind=~mask.any(-1, keepdim=True) if mask.is_cuda else None, bias=bias
    )


def _visible(ctx: PassContext, pattern: AttentionPattern | BlockSparsePattern) -> AttentionMask:
    if ctx.permutation is not None and isinstance(pattern, AttentionPattern):
        return with_blind(_permuted(ctx, pattern, ctx.permutation)[:, None])
    queries, keys = len(ctx.q_slot), len(ctx.k_slot)
    if isinstance(pattern, BlockSparsePattern) and keys <= pattern.whole:
        pattern = FULL
    plain = ctx.key_mask is None and ctx.documents is None and ctx.prefix is None
    plain = plain and ctx.branches is None and not ctx.spare
    if plain and pattern == FULL:
        return AttentionMask()
    if plain and pattern == CAUSAL and ctx.global_tokens is None:
        if queries == 1:  # the newest token sees everything before it
            return AttentionMask()
        if queries == keys:
            return AttentionMask(causal=True)

    mask, bias = None, None
    if isinstance(pattern, BlockSparsePattern):
        at, count = ctx.places[:, None], text_lengths(ctx)[:, None]  # [batch or 1, 1, key]
        asking, whole = at[..., -queries:, None], count[..., -queries:, None]
        chosen = random_blocks(ctx, pattern, asking, whole)
        times = counts(pattern, asking, at[..., None, :], whole, chosen)
        mask, bias = times > 0, times.clamp(min=1).log()
    elif pattern != FULL:
        if plain and queries == keys and pattern == replace(CAUSAL, block=pattern.block):
            return AttentionMask(causal=True, block=pattern.block)
        mask = within(pattern, ctx.q_slot[:, None], ctx.k_slot[None, :])[None, None]
        if pattern.block is not None:
            block = (ctx.places // pattern.block)[:, None]  # [batch or 1, 1, key]
            mask = mask & (block[..., -queries:, None] == block[..., None, :])
    if ctx.prefix is not None and mask is not None:
        mask = mask | (ctx.k_slot < ctx.prefix[:, None])[:, None, None, :]
    if ctx.global_tokens is not None and mask is not None:
        everywhere = ctx.global_tokens[:, None]
        mask = mask | everywhere[..., None, :] | everywhere[..., -queries:, None]
    if ctx.documents is not None:
        own = ctx.documents[:, -queries:, None] == ctx.documents[:, None, :]
        mask = _both(mask, own[:, None])
    if ctx.branches is not None:
        mask = _both(mask, ctx.branches.own[:, None])
    if ctx.key_mask is not None:
        mask = _both(mask, ctx.key_mask[:, None, None, :])
    if ctx.branches is not None:  # a branch sees itself
        return AttentionMask(mask, bias=bias)
    return AttentionMask() if mask is None else with_blind(mask, bias)


def _both(mask: Tensor | None, more: Tensor) -> Tensor:
    return more if mask is None else mask & more


def _permuted(ctx: PassContext, pattern: AttentionPattern, order: Permutation) -> Tensor:
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


def within(pattern: AttentionPattern, query: Tensor, key: Tensor) -> Tensor:
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


def counts(
    pattern: BlockSparsePattern, query: Tensor, key: Tensor, count: Tensor, chosen: Tensor | None
) -> Tensor:
    """How often keys count for queries, by their places in a text of `count` tokens; `chosen` are
    blocks that count once more for each time they stand there, [..., random]."""
    q, k, last = query // pattern.size, key // pattern.size, (count - 1) // pattern.size
    wide = sees_all(pattern, query, count)
    near = wide | ((k - q).abs() <= 1) | (k == 0) | (k == last)
    if chosen is None:
        return near.long()
    more: Tensor = (chosen == k[..., None]).sum(-1) * ~wide
    return near + more


def random_blocks(
    ctx: PassContext, pattern: BlockSparsePattern, query: Tensor, count: Tensor
) -> Tensor:
    """The blocks that queries see at random, [..., random]: drawn for each layer and pass in
    training, from all but the first and the last; otherwise the first one every time."""
    if not ctx.training:
        return query.new_zeros(pattern.random)
    key = ("random", pattern, ctx.depth)
    if key not in ctx.memo:
        blocks = -(-len(ctx.k_slot) // pattern.size)
        ctx.memo[key] = torch.rand(blocks, pattern.random, device=query.device)
    between = (count - 1) // pattern.size - 1
    share: Tensor = ctx.memo[key][query.clamp(min=0) // pattern.size]
    return 1 + (share * between[..., None]).long()


def sees_all(pattern: BlockSparsePattern, query: Tensor, count: Tensor) -> Tensor:
    block = query // pattern.size
    return (block == 0) | (block == (count - 1) // pattern.size) | (count <= pattern.whole)


def text_lengths(ctx: PassContext) -> Tensor:
    """How many tokens each token's text has, [batch or 1, key]."""
    real = ctx.places >= 0
    if ctx.documents is None:
        return real.sum(-1, keepdim=True).expand_as(real)
    return ((ctx.documents[:, :, None] == ctx.documents[:, None, :]) & real[:, None]).sum(-1)
