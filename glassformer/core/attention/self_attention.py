"""Self-attention, and the attention over heads that it shares with cross-attention."""

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
from glassformer.core.attention.compressed import KeyCompression, group_mask
from glassformer.core.attention.dispatch import select_kernel
from glassformer.core.attention.mask import AttentionMask
from glassformer.core.attention.sparse import ProjectedHeads
from glassformer.core.linear import Linear
from glassformer.core.norm import make_norm
from glassformer.core.pass_context import PassContext
from glassformer.core.positions.shaw import ShawPosition
from glassformer.core.positions.transformer_xl import RelativeBias
from glassformer.spec import (
    AttentionPattern,
    AttentionSpec,
    BlockSparsePattern,
    DisentangledSpec,
    PositionSpec,
    RelativePositionSpec,
)


class SelfAttention(nn.Module):
    """Attention whose queries, keys and values all come from the residual stream."""

    def __init__(self, width: int, spec: AttentionSpec, position: PositionSpec | None) -> None:
        super().__init__()
        self.spec = spec
        q, kv = spec.heads * spec.head_dim, spec.key_heads * spec.head_dim
        biased = (spec.bias, spec.bias and spec.key_bias, spec.bias)
        self.qkv = Linear(width, (q, kv, kv), biased=biased)
        if spec.separate_global_projections:
            self.global_qkv = Linear(width, (q, kv, kv), biased=biased)
        if isinstance(position, DisentangledSpec) and not position.shared_projections:
            if position.content_to_position:
                self.position_key = Linear(width, kv, bias=position.key_bias)
            if position.position_to_content:
                self.position_query = Linear(width, q)
        if isinstance(position, RelativePositionSpec):
            self.position_key = Linear(width, q, bias=False)
        if spec.qk_norm is not None:
            self.q_norm = make_norm(spec.head_dim, spec.qk_norm)
            self.k_norm = make_norm(spec.head_dim, spec.qk_norm)
        if spec.compression_factor is not None:
            self.k_compress = KeyCompression(kv, spec.compression_factor)
            self.v_compress = KeyCompression(kv, spec.compression_factor)
        self.attend = CoreAttention(spec)
        self.out = Linear(q, width, bias=spec.out_bias)

    def forward(
        self,
        x: Tensor,
        ctx: PassContext,
        pattern: AttentionPattern | BlockSparsePattern,
        position: nn.Module | None,
        empty_memory: Tensor | None = None,
    ) -> Tensor:
        """Applies self-attention.

        Args:
            x: [batch, position, width].
            ctx: The forward pass.
            pattern: Which keys a query may see.
            position: The position module, if any.
            empty_memory: The input vector of an empty memory slot, [1, 1, width].
        """
        q, k, v = self.project(x, ctx)
        if ctx.query_stream is not None:  # the query stream attends, but is not attended to
            tokens = len(ctx.q_slot)
            k, v = k[:, :, :tokens], v[:, :, :tokens]
        if empty_memory is not None:
            _, empty_k, empty_v = self.project(empty_memory, ctx)
            k, v = _after_memory(k, empty_k, ctx), _after_memory(v, empty_v, ctx)
        if self.spec.qk_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        bias = None
        if position is not None:
            q, k, bias = position(q, k, ctx, self)
        if ctx.cache is not None:
            k, v = ctx.cache.append(ctx.layer, k, v)
        scope: AttentionScope = pattern
        if self.spec.compression_factor is not None:
            k, v = self.k_compress.join(k, ctx), self.v_compress.join(v, ctx)
            scope = group_mask(ctx, self.spec.compression_factor)
        q, k, v = ctx.hook_point("q", q), ctx.hook_point("k", k), ctx.hook_point("v", v)
        z = self.attend(q, k, v, ctx, scope, bias, position, self.project_global(x, ctx))
        return ctx.hook_point("attn_out", self.out(join_heads(z)))

    def project(self, x: Tensor, ctx: PassContext) -> list[Tensor]:
        """Returns queries, keys and values of [batch, head, position, dim]."""
        q, k, v = self.qkv(x).split(self.qkv.parts, -1)
        if self.spec.compression_factor is not None:
            k, v = self.k_compress.contributions(k, ctx), self.v_compress.contributions(v, ctx)
        return [split_heads(part, self.spec.head_dim) for part in (q, k, v)]

    def project_global(self, x: Tensor, ctx: PassContext) -> ProjectedHeads | None:
        if not self.spec.separate_global_projections or ctx.global_attention_mask is None:
            return None
        q, k, v = self.global_qkv(x).split(self.qkv.parts, -1)
        q, k, v = (split_heads(part, self.spec.head_dim) for part in (q, k, v))
        return (
            ctx.hook_point("global.q", q),
            ctx.hook_point("global.k", k),
            ctx.hook_point("global.v", v),
        )


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


def _after_memory(x: Tensor, empty: Tensor, ctx: PassContext) -> Tensor:
    """Prepends the keys or values of an empty memory, and puts them at padding before a text.

    So everything before a text is the same, wherever it begins.
    """
    if ctx.left_padding_is_memory is not None:
        x = torch.where(ctx.left_padding_is_memory[:, None, :, None], empty, x)
    return torch.cat((empty.expand(x.shape[0], -1, ctx.empty_memory_slots, -1), x), 2)


def split_heads(x: Tensor, dim: int) -> Tensor:
    return x.view(*x.shape[:2], -1, dim).transpose(1, 2)  # [batch, head, position, dim]


def join_heads(z: Tensor) -> Tensor:
    return z.transpose(1, 2).flatten(2)  # [batch, position, head * dim]
