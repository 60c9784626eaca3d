"""Transformer blocks: attention, cross-attention and feed-forward on the residual stream."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.activation import ACTIVATIONS, IN_PLACE
from glassformer.core.attention.cross_attention import CrossAttention
from glassformer.core.attention.self_attention import SelfAttention
from glassformer.core.linear import Linear
from glassformer.core.norm import make_norm
from glassformer.core.pass_context import PassContext
from glassformer.spec import BlockSpec, FeedForwardSpec


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
        empty = self.empty_memory(x, ctx)
        attended = self.attention(self.attention_norm(x), ctx, self.spec.pattern, position, empty)
        x = x + self.dropout(attended)
        x = ctx.hook_point("resid_mid", x)
        if self.spec.cross is not None and ctx.has_encoder_output:
            x = x + self.dropout(self.cross(self.cross_norm(x), ctx))
        x = x + self.dropout(self.ffn(self.ffn_norm(x), ctx))
        return ctx.hook_point("resid_post", x)

    def empty_memory(self, x: Tensor, ctx: PassContext) -> Tensor | None:
        """Returns the input of attention at an empty memory slot: zeros that pass the same norm."""
        if not ctx.empty_memory_slots and ctx.left_padding_is_memory is None:
            return None
        normed: Tensor = self.attention_norm(x.new_zeros(1, 1, x.shape[-1]))
        return normed

    def dropout(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.spec.dropout, self.training)


class FeedForward(nn.Module):
    """down(activation(up(x))), or gated: down(activation(gate(x)) * up(x))."""

    def __init__(self, width: int, spec: FeedForwardSpec) -> None:
        super().__init__()
        self.spec = spec
        parts = (spec.width, spec.width) if spec.gated else spec.width
        self.up = Linear(width, parts, bias=spec.bias)  # gated: rows of the gate, then the rest
        self.down = Linear(spec.width, width, bias=spec.bias)
        self.activation = ACTIVATIONS[spec.activation]
        self.overwrite = IN_PLACE.get(spec.activation, self.activation)

    def forward(self, x: Tensor, ctx: PassContext) -> Tensor:
        if self.spec.gated:
            gate, linear = self.up(x).chunk(2, -1)
            hidden = self.activation(ctx.hook_point("ffn_pre", gate)) * linear
        elif ctx.tap is None and not torch.is_grad_enabled():
            hidden = self.overwrite(self.up(x))
        else:
            hidden = self.activation(ctx.hook_point("ffn_pre", self.up(x)))
        hidden = F.dropout(ctx.hook_point("ffn_post", hidden), self.spec.dropout, self.training)
        return ctx.hook_point("ffn_out", self.down(hidden))


class PostNormBlock(Block):
    """A block with the norm after each sum: norm(x + part(x))."""

    def forward(self, x: Tensor, ctx: PassContext, position: nn.Module | None = None) -> Tensor:
        x = ctx.hook_point("resid_pre", x)
        attended = self.attention(x, ctx, self.spec.pattern, position, self.empty_memory(x, ctx))
        x = self.attention_norm(x + self.dropout(attended))
        x = ctx.hook_point("resid_mid", x)
        if self.spec.cross is not None and ctx.has_encoder_output:
            x = self.cross_norm(x + self.dropout(self.cross(x, ctx)))
        x = self.ffn_norm(x + self.dropout(self.ffn(x, ctx)))
        return ctx.hook_point("resid_post", x)

    def empty_memory(self, x: Tensor, ctx: PassContext) -> Tensor | None:
        if not ctx.empty_memory_slots and ctx.left_padding_is_memory is None:
            return None
        return x.new_zeros(1, 1, x.shape[-1])


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
        empty = self.empty_memory(x, ctx)
        attended = self.attention(self.attention_norm(x), ctx, self.spec.pattern, position, empty)
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
        attended = self.attention(y, ctx, self.spec.pattern, position, self.empty_memory(x, ctx))
        middle = x + self.dropout(attended)
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
