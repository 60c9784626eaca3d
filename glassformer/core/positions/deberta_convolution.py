"""DeBERTa's convolution over neighboring tokens, parallel to the first layer."""

from __future__ import annotations

from torch import Tensor, nn

from glassformer.core.activation import ACTIVATIONS
from glassformer.core.norm import make_norm
from glassformer.core.pass_context import PassContext
from glassformer.spec import ConvolutionSpec


class DebertaConvolution(nn.Module):
    """norm(first layer's output + activation(convolution of embeddings))."""

    def __init__(self, width: int, spec: ConvolutionSpec) -> None:
        super().__init__()
        self.over_tokens = nn.Conv1d(
            width, width, spec.kernel, padding=(spec.kernel - 1) // 2, groups=spec.groups
        )
        self.activation = ACTIVATIONS[spec.activation]
        self.norm = make_norm(width, spec.norm)

    def forward(self, embedded: Tensor, x: Tensor, ctx: PassContext) -> Tensor:
        near = self.over_tokens(embedded.transpose(1, 2)).transpose(1, 2)
        if ctx.key_mask is not None:
            near = near * ctx.key_mask[..., None]
        out: Tensor = self.norm(x + self.activation(near))
        return out
