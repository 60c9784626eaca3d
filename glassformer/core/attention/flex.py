"""FlexAttention for sparse patterns over long texts.

A compiled kernel skips the blocks of keys that no query of a block sees, so time and memory depend
on the visible keys, not on the square of the length.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from glassformer.core.attention.mask import in_window
from glassformer.core.pass_context import PassContext
from glassformer.spec import AttentionPattern, BlockSparsePattern

FROM_LENGTH = 1024  # below this a dense mask is cheaper than the block mask
FROM_LENGTH_COMPILED = 256  # if creating the block mask is compiled too
SMALLEST_HEAD = 16  # the kernel's minimum head dimension


def prefers_flex(
    q: Tensor, k: Tensor, pattern: AttentionPattern | BlockSparsePattern, ctx: PassContext
) -> bool:
    """Whether to use FlexAttention: a window or packed documents over a long text on a GPU.

    There must be as many queries as keys. In a compiled step, which other kernels with masks would
    slow down, padding qualifies too.
    """
    if (
        isinstance(pattern, BlockSparsePattern)
        or ctx.global_attention_mask is not None
        or not q.is_cuda
    ):
        return False
    compiling = torch.compiler.is_compiling()
    padded = compiling and ctx.key_mask is not None
    sparse = pattern.left is not None or ctx.document_ids is not None or padded
    length = FROM_LENGTH_COMPILED if compiling else FROM_LENGTH
    long = q.shape[2] == k.shape[2] >= length and q.shape[3] >= SMALLEST_HEAD
    return pattern.block is None and sparse and long


def flex_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    ctx: PassContext,
    pattern: AttentionPattern | BlockSparsePattern,
) -> Tensor:
    """Returns softmax(q k^T * scale) v with the pattern's block mask, [batch, head, query, dim]."""
    assert isinstance(pattern, AttentionPattern)
    key = ("flex", pattern)
    if key not in ctx.memo:
        ctx.memo[key] = block_mask(ctx, pattern, q.shape[0])
    grouped = q.shape[1] != k.shape[1]
    kernel = _kernel() if torch.compiler.is_compiling() else _compiled()
    out: Tensor = kernel(q, k, v, block_mask=ctx.memo[key], scale=scale, enable_gqa=grouped)
    return out


def block_mask(ctx: PassContext, pattern: AttentionPattern, batch: int) -> Any:
    """Expresses the rule of `mask.self_attention_mask` as a function of one query and one key."""
    documents, prefix, real = ctx.document_ids, ctx.prefix_length, ctx.key_mask

    def mask_mod(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        may = in_window(pattern, query, key)
        if prefix is not None:
            may = may | (key < prefix[b])
        if documents is not None:
            may = may & (documents[b, query] == documents[b, key])
        if real is not None:
            may = may & real[b, key]
        return may

    from torch.nn.attention.flex_attention import create_block_mask  # slow to import

    length = len(ctx.q_slot)
    rows = None if documents is None and prefix is None and real is None else batch
    return create_block_mask(mask_mod, rows, None, length, length, device=str(ctx.q_slot.device))


def _kernel() -> Any:
    from torch.nn.attention.flex_attention import flex_attention as kernel

    return kernel


@cache
def _compiled() -> Any:
    return torch.compile(_kernel(), dynamic=False)
