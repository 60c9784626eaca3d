"""Scaled dot-product attention over heads: the plain computation, and the call of a kernel."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.attention.call import (
    AttentionCall,
    AttentionScope,
    at_global_queries,
    explicit_mask,
    total_bias,
)
from glassformer.core.attention.dispatch import select_kernel
from glassformer.core.attention.mask import AttentionMask
from glassformer.core.attention.sparse import ProjectedHeads
from glassformer.core.pass_context import PassContext
from glassformer.core.positions.shaw import ShawPosition
from glassformer.core.positions.transformer_xl import RelativeBias
from glassformer.spec import AttentionSpec


class CoreAttention(nn.Module):
    """softmax(q k^T * scale + bias) v for queries, keys and values that are split into heads.

    The kernels of `dispatch` and the eager computation give the same numbers. The eager one is used
    if a tap wants the scores or the pattern, for scores that no kernel supports, or with
    `ctx.eager`.
    """

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__()
        self.spec = spec
        self.scale = spec.head_dim**-0.5 if spec.scale is None else spec.scale
        if spec.score == "additive":
            self.direction = nn.Parameter(torch.zeros(spec.heads, spec.head_dim))

    def forward(
        self,
        q: Tensor,  # [batch, head, query, dim]
        k: Tensor,  # [batch, key head, key, dim]
        v: Tensor,
        ctx: PassContext,
        scope: AttentionScope,
        bias: Tensor | RelativeBias | None = None,
        position: nn.Module | None = None,
        global_qkv: ProjectedHeads | None = None,
        hook_prefix: str = "",
    ) -> Tensor:
        """Returns the values, weighted by the attention pattern: [batch, head, query, dim]."""
        dropout = self.spec.dropout if self.training else 0.0
        shaw = position if isinstance(position, ShawPosition) and position.adds_values else None
        call = AttentionCall(
            q, k, v, ctx, scope, bias, global_qkv, self.spec, self.scale, dropout, shaw is not None
        )
        kernel = select_kernel(call, hook_prefix)
        z = None if kernel is None else kernel.compute(call)
        if z is None or ctx.tap_wants(f"{hook_prefix}scores", f"{hook_prefix}pattern"):
            z = self.eager(call, shaw, hook_prefix, z)
        return ctx.hook_point(f"{hook_prefix}z", z)

    def eager(
        self, call: AttentionCall, shaw: ShawPosition | None, hook_prefix: str, z: Tensor | None
    ) -> Tensor:
        """Computes attention step by step; returns `z` if given and no hook changed a step."""
        ctx, mask, bias = call.ctx, call.mask, call.bias
        if isinstance(bias, RelativeBias):
            bias = bias.dense()
        scores = self.scores(call.q, call.k, mask, bias)
        if call.global_qkv is not None:
            global_q, global_k, _ = call.global_qkv
            scores = at_global_queries(ctx, self.scores(global_q, global_k, mask, bias), scores)
        hooked_scores = ctx.hook_point(f"{hook_prefix}scores", scores)
        weights = masked_softmax(hooked_scores, mask)
        hooked_weights = ctx.hook_point(f"{hook_prefix}pattern", weights)
        if z is not None and hooked_scores is scores and hooked_weights is weights:
            return z
        weights = F.dropout(hooked_weights, call.dropout, call.dropout > 0)
        z = weights @ self.repeat(call.v)
        if call.global_qkv is not None:
            z = at_global_queries(ctx, weights @ self.repeat(call.global_qkv[2]), z)
        return z if shaw is None else shaw.add_values(z, weights, ctx)

    def scores(self, q: Tensor, k: Tensor, mask: AttentionMask, bias: Tensor | None) -> Tensor:
        """Returns the scaled, capped, biased and masked scores, [batch, head, query, key]."""
        k = self.repeat(k)
        if self.spec.score == "dot":
            scores = q @ k.transpose(-1, -2) * self.scale
        else:  # Bahdanau et al.: a small network scores each pair
            pairs = torch.tanh(q[..., :, None, :] + k[..., None, :, :])
            scores = torch.einsum("bhqkd,hd->bhqk", pairs, self.direction)
        if self.spec.softcap is not None:
            scores = torch.tanh(scores / self.spec.softcap) * self.spec.softcap
        bias = total_bias(bias, mask, scores.dtype)
        if bias is not None:
            scores = scores + bias
        visible = explicit_mask(mask, scores)
        if visible is None:
            return scores
        return scores.masked_fill(~visible, torch.finfo(scores.dtype).min)

    def repeat(self, x: Tensor) -> Tensor:
        """Repeats each key head for its group of adjacent query heads (grouped-query attention)."""
        groups = self.spec.heads // self.spec.key_heads
        return x if groups == 1 else x.repeat_interleave(groups, dim=1)


def masked_softmax(scores: Tensor, mask: AttentionMask) -> Tensor:
    """Applies softmax; a row that sees no key becomes zeros."""
    weights = scores.softmax(-1, dtype=torch.float32).to(scores.dtype)
    visible = explicit_mask(mask, scores)
    return weights if visible is None else weights.masked_fill(~visible, 0.0)
