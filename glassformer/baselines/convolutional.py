"""A convolutional layer over neighboring tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.baselines.left_align import left_align
from glassformer.core.activation import ACTIVATIONS
from glassformer.core.pass_context import PassContext
from glassformer.errors import UnsupportedError
from glassformer.spec import ConvolutionalSpec


class ConvolutionalLayer(nn.Module):
    """Computes (x + activation(convolution of x)) * scale."""

    def __init__(self, width: int, spec: ConvolutionalSpec) -> None:
        super().__init__()
        self.spec = spec
        outputs = 2 * width if spec.gated else width  # gated: rows of the gate, then the rest
        self.over_tokens = nn.Conv1d(width, outputs, spec.kernel, dilation=spec.dilation)
        self.activation = ACTIVATIONS[spec.activation]
        self.reach = (spec.kernel - 1) * spec.dilation  # from the first token it reads to the last

    def forward(self, x: Tensor, ctx: PassContext) -> Tensor:
        x = ctx.hook_point("resid_pre", x)
        aligned = left_align(ctx, x)
        text, length = x, None
        if aligned is not None:
            text, length = aligned.move(x), aligned.length
            text = text.masked_fill(aligned.padding()[..., None], 0.0)
        text = self.pad_both_sides(text, length, ctx)
        near = self.over_tokens(text.transpose(1, 2)).transpose(1, 2)
        if aligned is not None:
            near = aligned.back(near)
        if self.spec.gated:
            gate, near = near.chunk(2, -1)
            near = self.activation(gate) * near
        else:
            near = self.activation(near)
        near = F.dropout(near, self.spec.dropout, self.training)
        return ctx.hook_point("resid_post", (x + near) * self.spec.scale)

    def pad_both_sides(self, text: Tensor, length: Tensor | None, ctx: PassContext) -> Tensor:
        """Pads a text with zeros on both sides, or prepends the tokens that the cache holds."""
        if ctx.cache is None:
            before = self.reach if self.spec.causal else self.reach // 2
            return F.pad(text, (0, 0, before, self.reach - before))
        if not self.spec.causal:
            raise UnsupportedError(
                "This model reads tokens on both sides, so it cannot use a cache."
            )
        past = ctx.cache.state(ctx.layer) or (F.pad(text[:, :0], (0, 0, self.reach, 0)),)
        text = torch.cat((*past, text), 1)
        slots = torch.arange(self.reach, device=text.device)
        ends = text.shape[1] - self.reach if length is None else length[:, None]
        at = (slots + ends).expand(len(text), -1)[..., None]  # the newest real tokens
        ctx.cache.set_state(ctx.layer, (text.gather(1, at.expand(-1, -1, text.shape[2])),))
        return text
