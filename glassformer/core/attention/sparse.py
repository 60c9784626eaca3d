"""Sparse attention for long texts, with cost linear in the visible keys, not quadratic in length.

Queries are grouped such that a group sees nearly the same keys: neighbors, or with a dilation every
d-th slot. The keys of each group are gathered, and all groups attend at once, as rows of a batch,
with a small mask. Queries that see everything attend to the whole text separately.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.core.attention.flex import FROM_LENGTH
from glassformer.core.attention.mask import (
    has_full_attention,
    in_window,
    key_counts,
    memo_key,
    random_blocks,
    text_lengths,
)
from glassformer.core.attention.sdpa import scaled_attention
from glassformer.core.pass_context import PassContext
from glassformer.rounding import ceil_div
from glassformer.spec import AttentionPattern, BlockSparsePattern

SMALLEST, LARGEST = 64, 256  # queries per group: fewer underuse the kernel, more see too many keys
GATHERED_NUMBERS = 1 << 21  # numbers gathered at once, so that they stay in the CPU cache
UNSEEN = float("-inf")

ProjectedHeads = tuple[
    Tensor, Tensor, Tensor
]  # queries, keys, values: [batch, head, position, dim]


class SparsePlan(NamedTuple):
    """Groups of tokens, as indices into the flattened batch."""

    queries: Tensor  # [batch * group, query]
    keys: Tensor  # [batch * group, key]
    bias: Tensor  # [batch * group, 1, query, key], -inf at invisible keys
    wide: Tensor | None  # [batch, query]: queries that see everything
    wide_bias: Tensor | None  # [batch, 1, query or 1, key]
    place: Tensor  # [batch * slot]: index of a token's result; wide ones come last


def prefers_sparse(
    q: Tensor, k: Tensor, pattern: AttentionPattern | BlockSparsePattern, ctx: PassContext
) -> bool:
    """Whether a query group sees less than half of a long text, with as many queries as keys."""
    length = q.shape[2]
    if torch.compiler.is_compiling() or length != k.shape[2] or ctx.prefix_length is not None:
        return False
    if q.is_cuda and length < FROM_LENGTH:
        return False
    if isinstance(pattern, BlockSparsePattern):
        return (
            length > pattern.full_attention_length
            and ctx.document_ids is None
            and ctx.global_attention_mask is None
        )
    if pattern.left is None or pattern.right is None or pattern.block is not None:
        return False
    reach = (pattern.left + pattern.right) // pattern.dilation
    return length >= 2 * (reach + _group_size(reach, length // pattern.dilation))


def _group_size(reach: int, length: int) -> int:
    return min(max(reach // 2, SMALLEST), LARGEST, length)


def sparse_attention(
    plain: ProjectedHeads,
    wide: ProjectedHeads,  # projections of the tokens that see everything
    ctx: PassContext,
    pattern: AttentionPattern | BlockSparsePattern,
    **given: Any,
) -> Tensor:
    """Returns softmax(q k^T) v, [batch, head, query, dim]; `given` are scale and dropout."""
    batch, heads, length, dim = plain[0].shape
    q, k, v = map(_tokens, plain)
    plan = _planned(ctx, pattern, batch)
    step = len(plan.queries)
    if q.device.type == "cpu":
        step = max(1, GATHERED_NUMBERS // (plan.keys.shape[1] * heads * dim))
    results = []
    for first in range(0, len(plan.queries), step):
        some = slice(first, first + step)
        asking, keys = _gathered(q, plan.queries[some], dim), plan.keys[some]
        gathered = _gathered(k, keys, dim), _gathered(v, keys, dim)
        results.append(_attend(asking, *gathered, plan.bias[some], **given))
    if plan.wide is not None:
        asking = _gathered(_tokens(wide[0]), plan.wide, dim)
        results.append(_attend(asking, wide[1], wide[2], plan.wide_bias, **given))
    z = torch.cat(results).index_select(0, plan.place)
    return z.view(batch, length, heads, dim).transpose(1, 2)


def _planned(
    ctx: PassContext, pattern: AttentionPattern | BlockSparsePattern, batch: int
) -> SparsePlan:
    key = memo_key("sparse", ctx, pattern)
    if key not in ctx.memo:
        make: Any = _block_plan if isinstance(pattern, BlockSparsePattern) else _window_plan
        ctx.memo[key] = make(ctx, pattern, batch)
    plan: SparsePlan = ctx.memo[key]
    return plan


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, **given: Any) -> Tensor:
    """Returns the attention output, [row * query, head * dim]."""
    fully_masked = None
    if bias is not None:
        bias = bias.to(q.dtype)
        if bias.is_cuda:  # GPU kernels leave rows that see nothing undefined
            fully_masked = (bias == UNSEEN).all(-1, keepdim=True)
            bias = bias.masked_fill(fully_masked, 0.0)
    z = scaled_attention(q, k, v, bias, **given)
    return _tokens(z if fully_masked is None else z.masked_fill(fully_masked, 0.0))


def _tokens(x: Tensor) -> Tensor:
    """Reshapes [batch, head, position, dim] to [batch * position, head * dim]."""
    return x.transpose(1, 2).flatten(2).flatten(0, 1)


def _gathered(tokens: Tensor, at: Tensor, dim: int) -> Tensor:
    """Gathers the tokens at indices of [row, position] as [row, head, position, dim]."""
    return tokens.index_select(0, at.flatten()).view(*at.shape, -1, dim).transpose(1, 2)


def _window_plan(ctx: PassContext, pattern: AttentionPattern, batch: int) -> SparsePlan:
    """Plans a window pattern by slots."""
    slots, step = ctx.k_slot, pattern.dilation
    assert pattern.left is not None and pattern.right is not None
    length, left, right = len(slots), pattern.left // step, pattern.right // step
    size = _group_size(left + right, ceil_div(length, step))
    first = (slots[:: size * step, None] + slots[:step]).view(1, -1, 1)
    near = step * torch.arange(-left, size + right, device=slots.device)
    own = near[left : left + size]
    queries, keys = first + own, first + near  # [1, group, ...]
    seen = in_window(pattern, own[:, None], near) & ((keys >= 0) & (keys < length))[:, :, None]
    queries, keys = queries.clamp(max=length - 1), keys.clamp(0, length - 1)
    flags = ctx.global_attention_mask
    if flags is not None:  # removed from the windows, and added to the keys of every group
        everywhere = _slots_of(flags)[:, None].expand(-1, keys.shape[1], -1)
        more = _look_up(flags, everywhere)[:, :, None].expand(-1, -1, size, -1)
        seen = torch.cat((seen & ~_look_up(flags, keys)[:, :, None], more), -1)
        keys = torch.cat((keys.expand(batch, -1, -1), everywhere), -1)
    if ctx.key_mask is not None:
        seen = seen & _look_up(ctx.key_mask, keys)[:, :, None]
    if ctx.document_ids is not None:
        asking, asked = _look_up(ctx.document_ids, queries), _look_up(ctx.document_ids, keys)
        seen = seen & (asking[..., None] == asked[:, :, None])
    group = slots // (size * step) * step + slots % step
    place = group * size + slots // step % size
    bias = torch.zeros((), device=slots.device).masked_fill(~seen, UNSEEN)
    return _plan(ctx, batch, queries, keys, bias, place[None], flags)


def _block_plan(ctx: PassContext, pattern: BlockSparsePattern, batch: int) -> SparsePlan:
    """Plans a block-sparse pattern by token indices in each text, mapped to slots at the end."""
    at, total = ctx.text_positions, text_lengths(ctx)  # [batch or 1, slot]
    real = at >= 0
    rows, size = len(at), pattern.block_size
    group = size if ctx.training else max(1, LARGEST // size) * size
    steps = torch.arange(-size, group + size, device=at.device)
    block = steps[size : 2 * size]
    first, count = ctx.k_slot[::group, None], total[:, :1, None]
    last = (count - 1) // size * size  # start of the last block, [batch or 1, 1, 1]
    queries, near = (first + steps[size:-size])[None], (first + steps).expand(rows, -1, -1)
    ends = torch.cat((block.expand(rows, 1, -1), last + block), -1).expand(-1, len(first), -1)
    fits = torch.cat(((near >= size) & (near < last), ends < count), -1)
    keys = torch.cat((near, ends), -1)  # [batch or 1, group, key]
    chosen = random_blocks(ctx, pattern, queries[..., :1], count)
    again = None if ctx.training else chosen
    asking, asked = queries[..., ::size, None], keys[:, :, None, ::size]  # one token per block
    times = key_counts(pattern, asking, asked, count[..., None], again)
    if ctx.training:  # each block has its own, [batch or 1, group, 1, random]
        more = (chosen[:, :, 0, :, None] * size + block).flatten(2)
        keys, fits = torch.cat((keys, more), -1), torch.cat((fits, more < count), -1)
        times = torch.cat((times, torch.ones_like(chosen)), -1)
    bias = times.log().repeat_interleave(size, -1).repeat_interleave(size, -2)
    bias = bias.masked_fill(~fits[:, :, None], UNSEEN)
    slot_of = _set_first(real)  # [batch or 1, place]
    queries, keys = (_look_up(slot_of, x.clamp(0, at.shape[1] - 1)) for x in (queries, keys))
    wide = real & has_full_attention(pattern, at, total)
    return _plan(ctx, batch, queries, keys, bias, at.clamp(min=0), wide)


def _plan(
    ctx: PassContext,
    batch: int,
    queries: Tensor,
    keys: Tensor,
    bias: Tensor,
    place: Tensor,
    wide: Tensor | None,
) -> SparsePlan:
    """Converts slots of a row, [batch or 1, ...], to indices into the flattened batch."""
    row = torch.arange(batch, device=place.device)[:, None]
    length, (groups, size) = place.shape[1], queries.shape[1:]
    place = place + row * groups * size
    asking = everything = None
    if wide is not None and bool(wide.any()):
        asking = _slots_of(wide).expand(batch, -1)
        behind = batch * groups * size + row * asking.shape[1]
        place = torch.where(wide, behind + wide.cumsum(-1) - 1, place)
        seen = None if ctx.key_mask is None else ctx.key_mask[:, None, None]
        if ctx.document_ids is not None:
            whose = _look_up(ctx.document_ids, asking[:, None])[..., None]
            own = whose == ctx.document_ids[:, None, None]
            seen = own if seen is None else own & seen
        if seen is not None:
            everything = torch.zeros((), device=place.device).masked_fill(~seen, UNSEEN)
        asking = asking + row * length
    return SparsePlan(
        (queries + row[..., None] * length).flatten(0, 1),
        (keys + row[..., None] * length).flatten(0, 1),
        bias.expand(batch, -1, -1, -1).flatten(0, 1)[:, None],
        asking,
        everything,
        place.flatten(),
    )


def _set_first(flags: Tensor) -> Tensor:
    """Sorts the slots of a row: flagged ones before the others, both in order."""
    return (~flags).byte().argsort(dim=-1, stable=True)


def _slots_of(flags: Tensor) -> Tensor:
    """Returns the flagged slots, [row, most], filled up with others in rows that have fewer."""
    most = int(flags.sum(-1).max())
    return _set_first(flags)[:, :most]


def _look_up(values: Tensor, at: Tensor) -> Tensor:
    """Returns values[row, at[row]] for values of [row, slot] and indices of [row, group, ...]."""
    rows = max(len(values), len(at))
    found = values.expand(rows, -1).gather(1, at.expand(rows, -1, -1).flatten(1))
    return found.view(rows, *at.shape[1:])
