"""Attention masks, computed from a block's pattern and the texts of the batch."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.core.pass_context import PassContext
from glassformer.core.permutation import Permutation
from glassformer.rounding import ceil_div
from glassformer.spec import CAUSAL, FULL, AttentionPattern, BlockSparsePattern


class AttentionMask(NamedTuple):
    """A mask that broadcasts to [batch, head, query, key], or a case that fused kernels handle.

    Attributes:
        mask: True where a key is visible. None: all keys, or the causal case.
        causal: A causal mask, without `mask`.
        block: With `causal`, each block of this many tokens is separate.
        fully_masked_queries: Queries that see nothing, [batch, 1, query, 1], for kernels
            that need to know.
        bias: Added to the scores: the logarithm of how often a key counts.
    """

    mask: Tensor | None = None
    causal: bool = False
    block: int | None = None
    fully_masked_queries: Tensor | None = None
    bias: Tensor | None = None

    def slice(self, ctx: PassContext, queries: slice, keys: slice) -> AttentionMask:
        """Returns the mask of some of the queries and keys."""
        if self.causal:
            query, key = ctx.q_slot[queries, None], ctx.k_slot[keys]
            size = self.block or len(ctx.k_slot)
            return AttentionMask((key <= query) & (key // size == query // size))
        if self.mask is None:
            return self
        rows = queries if self.mask.shape[2] > 1 else slice(None)
        masked = (
            None if self.fully_masked_queries is None else self.fully_masked_queries[:, :, rows]
        )
        return AttentionMask(self.mask[:, :, rows, keys], fully_masked_queries=masked)


def self_attention_mask(
    ctx: PassContext, pattern: AttentionPattern | BlockSparsePattern
) -> AttentionMask:
    """Returns the self-attention mask of a pattern, computed once per pass."""
    key = memo_key("visible", ctx, pattern)
    mask: AttentionMask | None = ctx.memo.get(key)
    if mask is None:
        mask = ctx.memo[key] = _self_attention_mask(ctx, pattern)
    return mask


def memo_key(
    what: str, ctx: PassContext, pattern: AttentionPattern | BlockSparsePattern
) -> tuple[object, ...]:
    """Returns the key in `ctx.memo` of a value that all layers with this pattern share.

    Random patterns in training are not shared, so their key includes the layer.
    """
    random = ctx.training and isinstance(pattern, BlockSparsePattern)
    return what, pattern, ctx.depth if random else None


def cross_attention_mask(ctx: PassContext) -> AttentionMask:
    """Returns the cross-attention mask: all real tokens of the encoder."""
    return (
        AttentionMask()
        if ctx.encoder_attention_mask is None
        else mask_of_keys(ctx.encoder_attention_mask)
    )


def mask_of_keys(real: Tensor) -> AttentionMask:
    """Returns a mask that shows the same keys, [batch, key], to every query."""
    return with_fully_masked_queries(real[:, None, None, :])


def with_fully_masked_queries(mask: Tensor, bias: Tensor | None = None) -> AttentionMask:
    """Adds `fully_masked_queries` on a GPU, whose kernels leave their result undefined."""
    return AttentionMask(
        mask, fully_masked_queries=~mask.any(-1, keepdim=True) if mask.is_cuda else None, bias=bias
    )


def _self_attention_mask(
    ctx: PassContext, pattern: AttentionPattern | BlockSparsePattern
) -> AttentionMask:
    if ctx.permutation is not None and isinstance(pattern, AttentionPattern):
        return with_fully_masked_queries(_permuted(ctx, pattern, ctx.permutation)[:, None])
    queries, keys = len(ctx.q_slot), len(ctx.k_slot)
    if isinstance(pattern, BlockSparsePattern) and keys <= pattern.full_attention_length:
        pattern = FULL
    plain = ctx.key_mask is None and ctx.document_ids is None and ctx.prefix_length is None
    plain = plain and ctx.tree_mask is None and not ctx.preallocated
    if plain and pattern == FULL:
        return AttentionMask()
    if plain and pattern == CAUSAL and ctx.global_attention_mask is None:
        if queries == 1:  # the newest token sees all earlier ones
            return AttentionMask()
        if queries == keys:
            return AttentionMask(causal=True)

    mask, bias = None, None
    if isinstance(pattern, BlockSparsePattern):
        at, count = ctx.text_positions[:, None], text_lengths(ctx)[:, None]  # [batch or 1, 1, key]
        asking, whole = at[..., -queries:, None], count[..., -queries:, None]
        chosen = random_blocks(ctx, pattern, asking, whole)
        times = key_counts(pattern, asking, at[..., None, :], whole, chosen)
        mask, bias = times > 0, times.clamp(min=1).log()
    elif pattern != FULL:
        if plain and queries == keys and pattern == replace(CAUSAL, block=pattern.block):
            return AttentionMask(causal=True, block=pattern.block)
        mask = in_window(pattern, ctx.q_slot[:, None], ctx.k_slot[None, :])[None, None]
        if pattern.block is not None:
            block = (ctx.text_positions // pattern.block)[:, None]  # [batch or 1, 1, key]
            mask = mask & (block[..., -queries:, None] == block[..., None, :])
    if ctx.prefix_length is not None and mask is not None:
        mask = mask | (ctx.k_slot < ctx.prefix_length[:, None])[:, None, None, :]
    if ctx.global_attention_mask is not None and mask is not None:
        everywhere = ctx.global_attention_mask[:, None]
        mask = mask | everywhere[..., None, :] | everywhere[..., -queries:, None]
    if ctx.document_ids is not None:
        own = ctx.document_ids[:, -queries:, None] == ctx.document_ids[:, None, :]
        mask = _both(mask, own[:, None])
    if ctx.tree_mask is not None:
        mask = _both(mask, ctx.tree_mask.ancestor_mask[:, None])
    if ctx.key_mask is not None:
        mask = _both(mask, ctx.key_mask[:, None, None, :])
    if ctx.tree_mask is not None:  # a branch sees itself, so no query is fully masked
        return AttentionMask(mask, bias=bias)
    return AttentionMask() if mask is None else with_fully_masked_queries(mask, bias)


def _both(mask: Tensor | None, more: Tensor) -> Tensor:
    return more if mask is None else mask & more


def _permuted(ctx: PassContext, pattern: AttentionPattern, order: Permutation) -> Tensor:
    """Returns [batch, query, key]. Tokens always see themselves, the query stream does not."""
    hidden = order.mask_over(len(ctx.k_slot))
    query, key = ctx.q_slot[:, None], ctx.k_slot
    mask = (in_window(pattern, query, key) & ~hidden) | (query == key)
    if order.targets is not None:
        rows = order.targets[..., None]
        asking = in_window(pattern, rows + ctx.q_slot[0], key)
        asking = asking & ~hidden.gather(1, rows.expand(-1, -1, len(key)))
        mask = torch.cat((mask, asking), 1)
    return mask if ctx.key_mask is None else mask & ctx.key_mask[:, None]


def in_window(pattern: AttentionPattern, query: Tensor, key: Tensor) -> Tensor:
    """Whether slots `key` are within the pattern's range of slots `query`."""
    distance = key - query
    seen = distance == distance
    if pattern.left is not None:
        seen = seen & (distance >= -pattern.left)
    if pattern.right is not None:
        seen = seen & (distance <= pattern.right)
    if pattern.dilation > 1:
        seen = seen & (distance % pattern.dilation == 0)
    return seen


def key_counts(
    pattern: BlockSparsePattern, query: Tensor, key: Tensor, count: Tensor, chosen: Tensor | None
) -> Tensor:
    """Returns how often keys count for queries, by their indices in a text of `count` tokens.

    `chosen`, [..., random], are blocks that count once more for each occurrence.
    """
    q, k, last = (
        query // pattern.block_size,
        key // pattern.block_size,
        (count - 1) // pattern.block_size,
    )
    wide = has_full_attention(pattern, query, count)
    near = wide | ((k - q).abs() <= 1) | (k == 0) | (k == last)
    if chosen is None:
        return near.long()
    more: Tensor = (chosen == k[..., None]).sum(-1) * ~wide
    return near + more


def random_blocks(
    ctx: PassContext, pattern: BlockSparsePattern, query: Tensor, count: Tensor
) -> Tensor:
    """Returns the random blocks that queries see, [..., random].

    In training they are drawn for each layer and pass, from all but the first and the last block;
    otherwise they are all the first block.
    """
    if not ctx.training:
        return query.new_zeros(pattern.num_random_blocks)
    key = ("random", pattern, ctx.depth)
    if key not in ctx.memo:
        blocks = ceil_div(len(ctx.k_slot), pattern.block_size)
        ctx.memo[key] = torch.rand(blocks, pattern.num_random_blocks, device=query.device)
    between = (count - 1) // pattern.block_size - 1
    share: Tensor = ctx.memo[key][query.clamp(min=0) // pattern.block_size]
    return 1 + (share * between[..., None]).long()


def has_full_attention(pattern: BlockSparsePattern, query: Tensor, count: Tensor) -> Tensor:
    """Whether queries, by their indices in a text of `count` tokens, attend to all of it."""
    block = query // pattern.block_size
    return (
        (block == 0)
        | (block == (count - 1) // pattern.block_size)
        | (count <= pattern.full_attention_length)
    )


def text_lengths(ctx: PassContext) -> Tensor:
    """Returns the length of each token's text, [batch or 1, key]."""
    real = ctx.text_positions >= 0
    if ctx.document_ids is None:
        return real.sum(-1, keepdim=True).expand_as(real)
    return ((ctx.document_ids[:, :, None] == ctx.document_ids[:, None, :]) & real[:, None]).sum(-1)
