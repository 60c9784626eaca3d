"""Scaled dot-product attention over heads: choice of the kernel, and the plain computation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.attention.few_queries import matmul_attention, prefers_matmul
from glassformer.core.attention.flex import flex_attention, prefers_flex
from glassformer.core.attention.mask import AttentionMask, self_attention_mask
from glassformer.core.attention.sdpa import scaled_attention
from glassformer.core.attention.sparse import ProjectedHeads, prefers_sparse, sparse_attention
from glassformer.core.attention.varlen import prefers_varlen, varlen_attention
from glassformer.core.pass_context import PassContext
from glassformer.core.positions.transformer_xl import RelativeBias
from glassformer.native import attention as cpu
from glassformer.spec import (
    FULL,
    AttentionPattern,
    AttentionSpec,
    BlockSparsePattern,
)


class Attend(nn.Module):
    """softmax(q k^T * scale + bias) v for queries, keys and values that are split into heads.

    The fused kernels and the plain computation give the same numbers. The plain one is used if a
    tap wants the scores or the pattern, for scores that the kernels do not support, or with
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
        sight: AttentionMask | AttentionPattern | BlockSparsePattern,
        bias: Tensor | RelativeBias | None = None,
        position: nn.Module | None = None,
        wide: ProjectedHeads | None = None,  # separate projections of global tokens
        scope: str = "",
    ) -> Tensor:
        on_values = getattr(position, "values", None) is not None
        special = self.spec.score == "additive" or self.spec.softcap is not None
        plain = ctx.eager or on_values or special
        z = None if plain else self.fused(q, k, v, ctx, sight, bias, wide)
        if plain or ctx.tap_wants(f"{scope}scores", f"{scope}pattern"):
            seen, whole = (
                _resolved(sight, ctx),
                bias.dense() if isinstance(bias, RelativeBias) else bias,
            )
            scores = self.scores(q, k, seen, whole)
            if wide is not None:
                scores = _at_global(ctx, self.scores(*wide[:2], seen, whole), scores)
            shown_scores = ctx.hook_point(f"{scope}scores", scores)
            weights = _softmax(shown_scores, seen)
            shown = ctx.hook_point(f"{scope}pattern", weights)
            if z is None or shown_scores is not scores or shown is not weights:
                shown = F.dropout(shown, self.spec.dropout, self.training)
                z = shown @ self.repeat(v)
                if wide is not None:
                    z = _at_global(ctx, shown @ self.repeat(wide[2]), z)
                if on_values and position is not None:
                    z = position.add_values(z, shown, ctx)  # type: ignore[operator]
        assert z is not None
        return ctx.hook_point(f"{scope}z", z)

    def fused(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        ctx: PassContext,
        sight: AttentionMask | AttentionPattern | BlockSparsePattern,
        bias: Tensor | RelativeBias | None,
        wide: ProjectedHeads | None,
    ) -> Tensor:
        """Computes attention with the fastest suitable kernel."""
        dropout = self.spec.dropout if self.training else 0.0
        if not isinstance(sight, AttentionMask) and bias is None and ctx.permutation is None:
            if prefers_varlen(q, k, sight, ctx):
                return varlen_attention(q, k, v, self.scale, ctx, sight, dropout)
            if not dropout and prefers_flex(q, k, sight, ctx):
                return flex_attention(q, k, v, self.scale, ctx, sight)
            if prefers_sparse(q, k, sight, ctx):
                given = {"scale": self.scale, "dropout": dropout}
                return sparse_attention((q, k, v), wide or (q, k, v), ctx, sight, **given)
        if ctx.decode_kernel is not None and isinstance(sight, AttentionPattern) and bias is None:
            return ctx.decode_kernel(q, k, v, ctx, sight, self.scale)
        seen = _resolved(sight, ctx)
        if ctx.tree_mask is not None and bias is None and prefers_matmul(q, k):
            return matmul_attention(q, k, v, seen.mask, self.scale)
        if isinstance(bias, RelativeBias):
            pattern = (
                sight if isinstance(sight, AttentionPattern) and ctx.prefix_length is None else FULL
            )
            return self.banded(q, k, v, ctx, seen, bias, pattern, dropout)
        z = self.kernel(q, k, v, seen, bias, dropout)
        return z if wide is None else _at_global(ctx, self.kernel(*wide, seen, bias, dropout), z)

    def banded(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        ctx: PassContext,
        seen: AttentionMask,
        bias: RelativeBias,
        pattern: AttentionPattern,
        dropout: float,
    ) -> Tensor:
        """Computes attention per block of queries, with only the keys that the block may see."""
        parts = []
        for queries, keys in bias.blocks(pattern):
            part, block = seen.slice(ctx, queries, keys), bias.block(queries, keys)
            if part.mask is None:  # masking copies anyway; kernels need contiguous rows
                block = block.contiguous()
            near = k[:, :, keys], v[:, :, keys]
            parts.append(self.kernel(q[:, :, queries], *near, part, block, dropout))
        return torch.cat(parts, 2)

    def kernel(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        seen: AttentionMask,
        bias: Tensor | None,
        dropout: float,
    ) -> Tensor:
        if seen.block is not None and bias is None and seen.block < q.shape[2]:
            return self.in_blocks(q, k, v, seen.block, dropout)
        mask = seen.mask
        if mask is not None and seen.fully_masked_queries is not None:
            mask = mask | seen.fully_masked_queries
        bias = _summed(bias, seen, q.dtype)
        if bias is not None:
            if seen.causal:
                mask = _explicit(seen, bias)
            mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
        causal = seen.causal and bias is None
        if not dropout and cpu.prefers_attention(q, k, v, mask, causal):
            return cpu.attend(q, k, v, mask, causal, self.scale)[0]
        z = scaled_attention(q, k, v, mask, scale=self.scale, dropout=dropout, causal=causal)
        return (
            z
            if seen.fully_masked_queries is None
            else z.masked_fill(seen.fully_masked_queries, 0.0)
        )

    def in_blocks(self, q: Tensor, k: Tensor, v: Tensor, size: int, dropout: float) -> Tensor:
        """Treats every block as a separate text, so the cost is linear in the length."""
        batch, heads, length, dim = q.shape

        def cut(x: Tensor) -> Tensor:
            x = F.pad(x, (0, 0, 0, -length % size)).reshape(batch, x.shape[1], -1, size, dim)
            return x.transpose(1, 2).flatten(0, 1)  # [batch * block, head, position, dim]

        z = self.kernel(cut(q), cut(k), cut(v), AttentionMask(causal=True), None, dropout)
        z = z.view(batch, -1, heads, size, dim).transpose(1, 2).flatten(2, 3)
        return z[:, :, :length]

    def scores(self, q: Tensor, k: Tensor, seen: AttentionMask, bias: Tensor | None) -> Tensor:
        """Returns the scaled, capped, biased and masked scores, [batch, head, query, key]."""
        k = self.repeat(k)
        if self.spec.score == "dot":
            scores = q @ k.transpose(-1, -2) * self.scale
        else:  # Bahdanau et al.: a small network scores each pair
            pairs = torch.tanh(q[..., :, None, :] + k[..., None, :, :])
            scores = torch.einsum("bhqkd,hd->bhqk", pairs, self.direction)
        if self.spec.softcap is not None:
            scores = torch.tanh(scores / self.spec.softcap) * self.spec.softcap
        bias = _summed(bias, seen, scores.dtype)
        if bias is not None:
            scores = scores + bias
        mask = _explicit(seen, scores)
        return scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)

    def repeat(self, x: Tensor) -> Tensor:
        """Repeats each key head for its group of adjacent query heads (grouped-query attention)."""
        groups = self.spec.heads // self.spec.key_heads
        return x if groups == 1 else x.repeat_interleave(groups, dim=1)


def _resolved(
    sight: AttentionMask | AttentionPattern | BlockSparsePattern, ctx: PassContext
) -> AttentionMask:
    """Computes a pattern's mask, only where it is needed: its size is quadratic in the length."""
    return sight if isinstance(sight, AttentionMask) else self_attention_mask(ctx, sight)


def _summed(bias: Tensor | None, seen: AttentionMask, dtype: torch.dtype) -> Tensor | None:
    """Adds the position bias and the bias for keys that count several times."""
    if seen.bias is None:
        return bias
    return seen.bias.to(dtype) if bias is None else bias + seen.bias.to(dtype)


def _at_global(ctx: PassContext, those: Tensor, others: Tensor) -> Tensor:
    """Selects `those` at global queries, else `others`; both are [batch, head, query, ...]."""
    assert ctx.global_attention_mask is not None
    asking = ctx.global_attention_mask[:, None, -others.shape[2] :, None]
    return torch.where(asking, those, others)


def _softmax(scores: Tensor, seen: AttentionMask) -> Tensor:
    """Applies softmax; a row that sees no key becomes zeros."""
    weights = scores.softmax(-1, dtype=torch.float32).to(scores.dtype)
    mask = _explicit(seen, scores)
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


def _explicit(seen: AttentionMask, scores: Tensor) -> Tensor | None:
    if not seen.causal:
        return seen.mask
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if seen.block is None:
        return mask
    block = torch.arange(len(mask), device=mask.device) // seen.block
    return mask & (block[:, None] == block)
