"""Variable-length attention: texts of several lengths in one row, separated by offsets.

It needs no masks, and supports dropout.
"""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.core.pass_context import PassContext
from glassformer.native import attention as cpu
from glassformer.spec import CAUSAL, FULL, AttentionPattern, BlockSparsePattern


def prefers_varlen(
    q: Tensor, k: Tensor, pattern: AttentionPattern | BlockSparsePattern, ctx: PassContext
) -> bool:
    """Whether to use it: if the batch has offsets, on a GPU in half precision or on a CPU.

    The CPU uses the package's own kernel.
    """
    plain = (
        ctx.prefix_length is None and ctx.global_attention_mask is None and ctx.permutation is None
    )
    if ctx.cu_seqlens is None or not plain or ctx.cache is not None or ctx.empty_memory_slots:
        return False
    if pattern in (FULL, CAUSAL) and len(q) == 1 and not q.is_cuda:
        return cpu.prefers_attention(q, k, k, None, pattern == CAUSAL)
    window = (
        isinstance(pattern, AttentionPattern) and pattern.dilation == 1 and pattern.block is None
    )
    fits = q.is_cuda and q.dtype.itemsize == 2 and q.shape[2] == k.shape[2] and q.shape[3] % 8 == 0
    return window and fits


def varlen_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    ctx: PassContext,
    pattern: AttentionPattern | BlockSparsePattern,
    p: float,
) -> Tensor:
    """Computes attention within each run; `p` is the dropout rate. Padding has no valid result."""
    assert ctx.cu_seqlens is not None and isinstance(pattern, AttentionPattern)
    if not q.is_cuda:
        return cpu.attend_runs(q, k, v, ctx.cu_seqlens, pattern == CAUSAL, scale)
    batch, heads, length, dim = q.shape
    q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))  # [batch * position, head, dim]
    sizes = (ctx.cu_seqlens, ctx.cu_seqlens, length, length)
    near = {"window_size_left": pattern.left, "window_size_right": pattern.right}
    out: Tensor = torch.ops.aten._flash_attention_forward(
        q, k, v, *sizes, p, pattern == CAUSAL, False, scale=scale, **near
    )[0]
    return out.view(batch, length, heads, dim).transpose(1, 2)
