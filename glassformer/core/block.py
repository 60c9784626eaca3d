"""Transformer blocks: attention, cross-attention and feed-forward on the residual stream."""

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
    """A block with the norm before each part: x + part(norm(x)).

    The other placements of the norm are subclasses, which have the same parts under the same names.
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

    def forward(self, x: Tensor, ctx: PassContext, position: nn.Module | None = None) -> Tensor:
        x = ctx.hook_point("resid_pre", x)
        x = x + self.dropout(self.attend(self.attention_norm(x), ctx, position))
        x = ctx.hook_point("resid_mid", x)
        if self.spec.cross is not None and ctx.has_encoder_output:
            x = x + self.dropout(self.cross(self.cross_norm(x), ctx))
        x = x + self.dropout(self.ffn(self.ffn_norm(x), ctx))
        return ctx.hook_point("resid_post", x)

    def attend(self, y: Tensor, ctx: PassContext, position: nn.Module | None) -> Tensor:
        """Applies self-attention; an empty memory slot is read as zeros that pass the same norm."""
        empty = None
        if ctx.empty_memory_slots or ctx.left_padding_is_memory is not None:
            empty = self.empty_memory(y.new_zeros(1, 1, y.shape[-1]))
        out: Tensor = self.attention(y, ctx, self.spec.pattern, position, empty)
        return out

    def empty_memory(self, zeros: Tensor) -> Tensor:
        normed: Tensor = self.attention_norm(zeros)
        return normed

    def dropout(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.spec.dropout, self.training)


class PostNormBlock(Block):
    """A block with the norm after each sum: norm(x + part(x))."""

    def forward(self, x: Tensor, ctx: PassContext, position: nn.Module | None = None) -> Tensor:
        x = ctx.hook_point("resid_pre", x)
        x = self.attention_norm(x + self.dropout(self.attend(x, ctx, position)))
        x = ctx.hook_point("resid_mid", x)
        if self.spec.cross is not None and ctx.has_encoder_output:
            x = self.cross_norm(x + self.dropout(self.cross(x, ctx)))
        x = self.ffn_norm(x + self.dropout(self.ffn(x, ctx)))
        return ctx.hook_point("resid_post", x)

    def empty_memory(self, zeros: Tensor) -> Tensor:
        return zeros


class SandwichBlock(Block):
    """A block with a norm before and after each part: x + norm(part(norm(x)))."""

    def __init__(self, width: int, memory_width: int, spec: BlockSpec) -> None:
        super().__init__(width, memory_width, spec)
        self.attention_norm_out = make_norm(width, spec.norm)
        self.ffn_norm_out = make_norm(width, spec.norm)
        if spec.cross is not None:
            self.cross_norm_out = make_norm(width, spec.norm)

    def forward(self, x: Tensor, ctx: PassContext, position: nn.Module | None = None) -> Tensor:
        x = ctx.hook_point("resid_pre", x)
        attended = self.attend(self.attention_norm(x), ctx, position)
        x = x + self.dropout(self.attention_norm_out(attended))
        x = ctx.hook_point("resid_mid", x)
        if self.spec.cross is not None and ctx.has_encoder_output:
            crossed = self.cross(self.cross_norm(x), ctx)
            x = x + self.dropout(self.cross_norm_out(crossed))
        x = x + self.dropout(self.ffn_norm_out(self.ffn(self.ffn_norm(x), ctx)))
        return ctx.hook_point("resid_post", x)


class ParallelBlock(Block):
    """Attention and feed-forward side by side: x + attention(norm(x)) + ffn(norm(x)).

    Both read the same norm (GPT-J) or each its own (GPT-NeoX).
    """

    def forward(self, x: Tensor, ctx: PassContext, position: nn.Module | None = None) -> Tensor:
        x = ctx.hook_point("resid_pre", x)
        y = self.attention_norm(x)
        middle = x + self.dropout(self.attend(y, ctx, position))
        middle = ctx.hook_point("resid_mid", middle)
        if self.spec.residual == "parallel":
            y = self.ffn_norm(x)
        x = middle + self.dropout(self.ffn(y, ctx))
        return ctx.hook_point("resid_post", x)


PLACEMENTS: dict[str, type[Block]] = {
    "pre": Block,
    "post": PostNormBlock,
    "sandwich": SandwichBlock,
}


def make_block(width: int, memory_width: int, spec: BlockSpec) -> Block:
    kind = PLACEMENTS[spec.placement] if spec.residual == "serial" else ParallelBlock
    return kind(width, memory_width, spec)
