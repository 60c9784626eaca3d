"""The inputs of one attention, in the form that the kernels share."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.core.attention.mask import AttentionMask, self_attention_mask
from glassformer.core.attention.sparse import ProjectedHeads
from glassformer.core.pass_context import PassContext
from glassformer.core.positions.transformer_xl import RelativeBias
from glassformer.spec import AttentionPattern, AttentionSpec, BlockSparsePattern

AttentionScope = AttentionMask | AttentionPattern | BlockSparsePattern


class AttentionCall(NamedTuple):
    """softmax(q k^T * scale + bias) v, of the keys that `scope` shows to each query."""

    q: Tensor  # [batch, head, query, dim]
    k: Tensor  # [batch, key head, key, dim]
    v: Tensor
    ctx: PassContext
    scope: AttentionScope
    bias: Tensor | RelativeBias | None
    global_qkv: ProjectedHeads | None  # separate projections of global tokens
    spec: AttentionSpec
    scale: float
    dropout: float
    adds_position_values: bool  # the position module adds vectors to the values (Shaw et al.)

    @property
    def mask(self) -> AttentionMask:
        """The mask, computed only where it is needed: its size is quadratic in the length."""
        if isinstance(self.scope, AttentionMask):
            return self.scope
        return self_attention_mask(self.ctx, self.scope)


def at_global_queries(ctx: PassContext, those: Tensor, others: Tensor) -> Tensor:
    """Selects `those` at global queries, else `others`; both are [batch, head, query, ...]."""
    assert ctx.global_attention_mask is not None
    is_global = ctx.global_attention_mask[:, None, -others.shape[2] :, None]
    return torch.where(is_global, those, others)


def total_bias(bias: Tensor | None, mask: AttentionMask, dtype: torch.dtype) -> Tensor | None:
    """Adds the position bias and the bias for keys that count several times."""
    if mask.bias is None:
        return bias
    return mask.bias.to(dtype) if bias is None else bias + mask.bias.to(dtype)


def explicit_mask(mask: AttentionMask, scores: Tensor) -> Tensor | None:
    """Returns the mask of [..., query, key], also for the causal case; None if all are visible."""
    if not mask.causal:
        return mask.mask
    causal = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask.block is None:
        return causal
    block = torch.arange(len(causal), device=causal.device) // mask.block
    return causal & (block[:, None] == block)
