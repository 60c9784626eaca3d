"""A Transformer block: attention, cross-attention and feed-forward on the residual stream."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.attention.cross_attention import CrossAttention
from glassformer.core.attention.self_attention import SelfAttention
from glassformer.core.ffn import FeedForward
from glassformer.core.norm import make_norm
from glassformer.core.pass_context import PassContext
from glassformer.spec import BlockSpec


class Block(nn.Module):
    """Applies x + part(norm(x)), norm(x + part(x)), or x + norm(part(norm(x))).

    The parts run in sequence, or attention and feed-forward run in parallel.
    """

    def __init__(self, width: int, memory_width: int, spec: BlockSpec) -> None:
        super().__init__()
        self.spec = spec
        self.attention = SelfAttention(width, spec.attention, spec.position)
        normed = spec.attention_normed
        self.attention_norm = make_norm(width, spec.norm) if normed else nn.Identity()
        if spec.cross is not None:
            self.cross = CrossAttention(width, memory_width, spec.cross)
            self.cross_norm = make_norm(width, spec.norm)
        self.ffn = FeedForward(width, spec.ffn)
        if spec.residual != "parallel_shared_norm":
            self.ffn_norm = make_norm(width, spec.norm)
        if spec.placement == "sandwich":
            self.attention_norm_out = make_norm(width, spec.norm)
            self.ffn_norm_out = make_norm(width, spec.norm)
            if spec.cross is not None:
                self.cross_norm_out = make_norm(width, spec.norm)

    def forward(self, x: Tensor, ctx: PassContext, position: nn.Module | None = None) -> Tensor:
        x = ctx.hook_point("resid_pre", x)
        if self.spec.residual == "serial":
            attended = self.attend(self.read("attention", x), ctx, position)
            x = ctx.hook_point("resid_mid", self.write("attention", x, attended))
            if self.spec.cross is not None and ctx.has_encoder_output:
                x = self.write("cross", x, self.cross(self.read("cross", x), ctx))
            x = self.write("ffn", x, self.ffn(self.read("ffn", x), ctx))
        else:
            y = self.attention_norm(x)
            middle = self.write("attention", x, self.attend(y, ctx, position))
            if self.spec.residual == "parallel":
                y = self.ffn_norm(x)
            x = self.write("ffn", ctx.hook_point("resid_mid", middle), self.ffn(y, ctx))
        return ctx.hook_point("resid_post", x)

    def attend(self, y: Tensor, ctx: PassContext, position: nn.Module | None) -> Tensor:
        """Applies self-attention. An empty memory consists of zeros that pass the same norm."""
        blank = None
        if ctx.empty_memory_slots or ctx.left_padding_is_memory is not None:
            blank = self.read("attention", y.new_zeros(1, 1, y.shape[-1]))
        out: Tensor = self.attention(y, ctx, self.spec.pattern, position, blank)
        return out

    def read(self, part: str, x: Tensor) -> Tensor:
        """Returns the input of a part: the residual stream, normed except for post-norm."""
        if self.spec.placement == "post":
            return x
        out: Tensor = getattr(self, f"{part}_norm")(x)
        return out

    def write(self, part: str, x: Tensor, change: Tensor) -> Tensor:
        """Adds the output of a part to the residual stream."""
        if self.spec.placement == "sandwich":
            change = getattr(self, f"{part}_norm_out")(change)
        x = x + F.dropout(change, self.spec.dropout, self.training)
        if self.spec.placement == "post":
            x = getattr(self, f"{part}_norm")(x)
        return x
