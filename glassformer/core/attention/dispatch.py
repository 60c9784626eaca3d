"""The table of attention kernels, and the choice of one: once per pass and attention pattern.

A row lists what its kernel supports, and requires everything else to be neutral. The first row that
supports a call computes it. The last row, PyTorch's kernel with a dense mask, takes the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.core.attention.call import AttentionCall
from glassformer.core.attention.dense import (
    block_local_attention,
    blockwise_attention,
    masked_attention,
    native_attention,
)
from glassformer.core.attention.few_queries import matmul_attention, prefers_matmul
from glassformer.core.attention.flex import flex_attention, prefers_flex
from glassformer.core.attention.mask import AttentionMask
from glassformer.core.attention.sparse import prefers_sparse, sparse_attention
from glassformer.core.attention.varlen import prefers_varlen, varlen_attention
from glassformer.core.positions.transformer_xl import RelativeBias
from glassformer.native import attention as cpu
from glassformer.spec import AttentionPattern


class AttentionKernel(NamedTuple):
    """A way to compute attention: whether it supports a call, and the computation."""

    name: str
    supports: Callable[[AttentionCall], bool]
    compute: Callable[[AttentionCall], Tensor]


def select_kernel(call: AttentionCall, hook_prefix: str) -> AttentionKernel | None:
    """Returns the kernel of a call, or None for the eager computation.

    The layers of a pass that have the same pattern and sizes share the choice. With a tap each
    layer makes its own, because a hook may have replaced the heads by tensors of another layout.
    """
    if call.ctx.tap is not None:
        return _first_kernel(call)
    key = (
        "kernel",
        hook_prefix,
        AttentionMask if isinstance(call.scope, AttentionMask) else call.scope,
        type(call.bias),
        call.global_qkv is None,
        call.dropout > 0,
        call.adds_position_values,
        (call.spec.heads, call.spec.kv_heads, call.spec.head_dim),
        (call.spec.score, call.spec.softcap),
        torch.is_grad_enabled(),  # differs between a pass and its recomputation for gradients
    )
    choice: tuple[AttentionKernel | None] | None = call.ctx.memo.get(key)
    if choice is None:  # a tuple, because the choice may be None
        choice = call.ctx.memo[key] = (_first_kernel(call),)
    return choice[0]


def _first_kernel(call: AttentionCall) -> AttentionKernel | None:
    if call.ctx.eager or call.adds_position_values:
        return None
    if call.spec.score != "dot" or call.spec.softcap is not None:
        return None
    return next(kernel for kernel in KERNELS if kernel.supports(call))


def _by_pattern(call: AttentionCall) -> bool:
    """Whether pattern, padding, documents and prefix alone decide which keys are visible."""
    ctx = call.ctx
    by_pattern = not isinstance(call.scope, AttentionMask) and call.bias is None
    return by_pattern and ctx.permutation is None and ctx.tree_mask is None and not ctx.preallocated


def _supports_varlen(call: AttentionCall) -> bool:
    if isinstance(call.scope, AttentionMask) or not _by_pattern(call):
        return False
    if call.global_qkv is not None or (call.dropout and not call.q.is_cuda):
        return False
    return prefers_varlen(call.q, call.k, call.scope, call.ctx)


def _varlen(call: AttentionCall) -> Tensor:
    assert isinstance(call.scope, AttentionPattern)
    return varlen_attention(call.q, call.k, call.v, call.scale, call.ctx, call.scope, call.dropout)


def _supports_flex(call: AttentionCall) -> bool:
    if isinstance(call.scope, AttentionMask) or not _by_pattern(call):
        return False
    if call.dropout or call.global_qkv is not None:
        return False
    return prefers_flex(call.q, call.k, call.scope, call.ctx)


def _flex(call: AttentionCall) -> Tensor:
    assert isinstance(call.scope, AttentionPattern)
    return flex_attention(call.q, call.k, call.v, call.scale, call.ctx, call.scope)


def _supports_sparse(call: AttentionCall) -> bool:
    if isinstance(call.scope, AttentionMask) or not _by_pattern(call):
        return False
    return prefers_sparse(call.q, call.k, call.scope, call.ctx)


def _sparse(call: AttentionCall) -> Tensor:
    assert not isinstance(call.scope, AttentionMask)
    plain = call.q, call.k, call.v
    return sparse_attention(
        plain,
        call.global_qkv or plain,
        call.ctx,
        call.scope,
        scale=call.scale,
        dropout=call.dropout,
    )


def _supports_decode(call: AttentionCall) -> bool:
    ctx = call.ctx
    if ctx.decode_kernel is None or not isinstance(call.scope, AttentionPattern):
        return False
    plain = call.bias is None and call.global_qkv is None and not call.dropout
    return plain and ctx.permutation is None and ctx.tree_mask is None


def _decode(call: AttentionCall) -> Tensor:
    assert call.ctx.decode_kernel is not None
    return call.ctx.decode_kernel(call.q, call.k, call.v, call.ctx, call.scope, call.scale)


def _supports_matmul(call: AttentionCall) -> bool:
    if call.ctx.tree_mask is None or call.bias is not None or call.dropout:
        return False
    plain = call.global_qkv is None and call.mask.bias is None and not call.mask.causal
    return plain and prefers_matmul(call.q, call.k)


def _matmul(call: AttentionCall) -> Tensor:
    return matmul_attention(call.q, call.k, call.v, call.mask.mask, call.scale)


def _supports_blockwise(call: AttentionCall) -> bool:
    return isinstance(call.bias, RelativeBias) and call.global_qkv is None


def _supports_block_local(call: AttentionCall) -> bool:
    block = call.mask.block
    if block is None or call.bias is not None or call.global_qkv is not None:
        return False
    return call.mask.causal and call.mask.bias is None and block < call.q.shape[2]


def _supports_native(call: AttentionCall) -> bool:
    mask = call.mask
    if call.dropout or call.bias is not None or mask.bias is not None:
        return False
    if mask.fully_masked_queries is not None:
        return False
    return cpu.prefers_attention(call.q, call.k, call.v, mask.mask, mask.causal)


KERNELS = (
    AttentionKernel("varlen", _supports_varlen, _varlen),
    AttentionKernel("flex", _supports_flex, _flex),
    AttentionKernel("sparse", _supports_sparse, _sparse),
    AttentionKernel("decode", _supports_decode, _decode),
    AttentionKernel("matmul", _supports_matmul, _matmul),
    AttentionKernel("blockwise", _supports_blockwise, blockwise_attention),
    AttentionKernel("block_local", _supports_block_local, block_local_attention),
    AttentionKernel("native", _supports_native, native_attention),
    AttentionKernel("sdpa", lambda call: True, masked_attention),
)
