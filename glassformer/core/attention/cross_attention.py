"""Cross-attention of a decoder to the encoder's output."""

from __future__ import annotations

from torch import Tensor, nn

from glassformer.core.attention.mask import cross_attention_mask
from glassformer.core.attention.self_attention import CoreAttention, join_heads, split_heads
from glassformer.core.linear import Linear
from glassformer.core.norm import make_norm
from glassformer.core.pass_context import PassContext
from glassformer.spec import AttentionSpec


class CrossAttention(nn.Module):
    """Queries come from the residual stream, keys and values from the encoder's output."""

    def __init__(self, width: int, memory_width: int, spec: AttentionSpec) -> None:
        super().__init__()
        self.spec = spec
        q, kv = spec.heads * spec.head_dim, spec.key_heads * spec.head_dim
        self.q = Linear(width, q, bias=spec.bias)
        self.kv = Linear(memory_width, (kv, kv), biased=(spec.bias and spec.key_bias, spec.bias))
        if spec.qk_norm is not None:
            self.q_norm = make_norm(spec.head_dim, spec.qk_norm)
            self.k_norm = make_norm(spec.head_dim, spec.qk_norm)
        self.attend = CoreAttention(spec)
        self.out = Linear(q, width, bias=spec.out_bias)

    def forward(self, x: Tensor, ctx: PassContext) -> Tensor:
        q = split_heads(self.q(x), self.spec.head_dim)
        if self.spec.qk_norm is not None:
            q = self.q_norm(q)
        q = ctx.hook_point("cross.q", q)
        k, v = self.project_encoder_output(ctx)
        k, v = ctx.hook_point("cross.k", k), ctx.hook_point("cross.v", v)
        z = self.attend(q, k, v, ctx, cross_attention_mask(ctx), hook_prefix="cross.")
        return ctx.hook_point("cross.attn_out", self.out(join_heads(z)))

    def project_encoder_output(self, ctx: PassContext) -> tuple[Tensor, Tensor]:
        held = None if ctx.cache is None else ctx.cache.cross(ctx.layer)
        if held is None:
            assert ctx.encoder_hidden_states is not None
            held = self.project(ctx.encoder_hidden_states)
            if ctx.cache is not None:  # contiguous, because they are read at every step
                held = held[0].contiguous(), held[1].contiguous()
                ctx.cache.set_cross(ctx.layer, *held)
        return held

    def project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Returns keys and values of [batch, head, position, dim].

        Args:
            memory: The encoder's output, [batch, position, width].
        """
        k, v = self.kv(memory).split(self.kv.parts, -1)
        k, v = split_heads(k, self.spec.head_dim), split_heads(v, self.spec.head_dim)
        return (k if self.spec.qk_norm is None else self.k_norm(k)), v
