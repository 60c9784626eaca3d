"""The feed-forward layer, applied to each position separately."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.activation import ACTIVATIONS, IN_PLACE
from glassformer.core.linear import Linear
from glassformer.core.pass_context import PassContext
from glassformer.spec import FeedForwardSpec


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
