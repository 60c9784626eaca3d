"""Self-attention: projections to queries, keys and values, attention, output projection."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.core.attention.call import AttentionScope
from glassformer.core.attention.compressed import KeyCompression, group_mask
from glassformer.core.attention.eager import CoreAttention
from glassformer.core.attention.sparse import ProjectedHeads
from glassformer.core.linear import Linear
from glassformer.core.norm import make_norm
from glassformer.core.pass_context import PassContext
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
            k, v = self.k_compress.share(k, ctx), self.v_compress.share(v, ctx)
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
