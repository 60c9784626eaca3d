"""Fused attention with a dense mask or bias: PyTorch's kernel, or the package's own on a CPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.core.attention.call import (
    AttentionCall,
    at_global_queries,
    explicit_mask,
    total_bias,
)
from glassformer.core.attention.mask import AttentionMask
from glassformer.core.attention.sdpa import scaled_attention
from glassformer.core.positions.transformer_xl import RelativeBias
from glassformer.native import attention as cpu
from glassformer.spec import FULL, AttentionPattern


def native_attention(call: AttentionCall) -> Tensor:
    """Computes attention with the package's own CPU kernel."""
    mask, causal = call.mask.mask, call.mask.causal
    z = cpu.attend(call.q, call.k, call.v, mask, causal, call.scale)[0]
    if call.global_qkv is None:
        return z
    those = cpu.attend(*call.global_qkv, mask, causal, call.scale)[0]
    return at_global_queries(call.ctx, those, z)


def masked_attention(call: AttentionCall) -> Tensor:
    """Computes attention with PyTorch's fused kernel."""
    assert not isinstance(call.bias, RelativeBias)
    z = _masked(call, call.q, call.k, call.v, call.mask, call.bias)
    if call.global_qkv is None:
        return z
    return at_global_queries(call.ctx, _masked(call, *call.global_qkv, call.mask, call.bias), z)


def blockwise_attention(call: AttentionCall) -> Tensor:
    """Computes attention per block of queries, with only the keys that the block may see.

    The bias of a block is computed from the distances that occur in it.
    """
    bias, seen = call.bias, call.mask
    assert isinstance(bias, RelativeBias)
    by_pattern = isinstance(call.scope, AttentionPattern) and call.ctx.prefix_length is None
    pattern = call.scope if isinstance(call.scope, AttentionPattern) and by_pattern else FULL
    parts = []
    for queries, keys in bias.blocks(pattern):
        part, block = seen.slice(call.ctx, queries, keys), bias.block(queries, keys)
        if part.mask is None:  # masking copies anyway; kernels need contiguous rows
            block = block.contiguous()
        near = call.k[:, :, keys], call.v[:, :, keys]
        parts.append(_masked(call, call.q[:, :, queries], *near, part, block))
    return torch.cat(parts, 2)


def block_local_attention(call: AttentionCall) -> Tensor:
    """Treats every block of tokens as a separate text, so the cost is linear in the length."""
    size = call.mask.block
    assert size is not None
    batch, heads, length, dim = call.q.shape

    def cut(x: Tensor) -> Tensor:
        x = F.pad(x, (0, 0, 0, -length % size)).reshape(batch, x.shape[1], -1, size, dim)
        return x.transpose(1, 2).flatten(0, 1)  # [batch * block, head, position, dim]

    q, k, v = cut(call.q), cut(call.k), cut(call.v)
    if not call.dropout and cpu.prefers_attention(q, k, v, None, True):
        z = cpu.attend(q, k, v, None, True, call.scale)[0]
    else:
        z = scaled_attention(q, k, v, None, scale=call.scale, dropout=call.dropout, causal=True)
    z = z.view(batch, -1, heads, size, dim).transpose(1, 2).flatten(2, 3)
    return z[:, :, :length]


def _masked(
    call: AttentionCall,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    seen: AttentionMask,
    bias: Tensor | None,
) -> Tensor:
    mask = seen.mask
    if mask is not None and seen.fully_masked_queries is not None:
        mask = mask | seen.fully_masked_queries
    bias = total_bias(bias, seen, q.dtype)
    if bias is not None:
        if seen.causal:
            mask = explicit_mask(seen, bias)
        mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
    causal = seen.causal and bias is None
    z = scaled_attention(q, k, v, mask, scale=call.scale, dropout=call.dropout, causal=causal)
    if seen.fully_masked_queries is None:
        return z
    return z.masked_fill(seen.fully_masked_queries, 0.0)
