"""An input that the encoder has already read, for several passes of the decoder over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.core import Cache, Transformer


@dataclass(frozen=True)
class EncodedSource:
    """The keys and values of cross-attention over one input, by layer.

    It is the `source` of a `GenerationRequest` in the place of the encoder's input.
    """

    cross: dict[int, tuple[Tensor, Tensor]]  # each [1, head, position, dim]

    def cache(self) -> Cache:
        """Returns a new cache for one row that reads this input."""
        cache = Cache()
        lay_sources(cache, [self])
        return cache


def lay_sources(cache: Cache, sources: Sequence[EncodedSource]) -> None:
    """Makes the rows of an empty cache read these inputs, which have equal lengths."""
    for depth in sources[0].cross:
        pairs = zip(*(source.cross[depth] for source in sources), strict=True)
        k, v = (torch.cat(parts) if len(parts) > 1 else parts[0] for parts in pairs)
        cache.set_cross(depth, k, v)


@torch.inference_mode()
def encode_sources(
    net: Transformer, inputs: Tensor, start: int
) -> tuple[list[EncodedSource], Tensor]:
    """Runs the encoder over a batch of inputs, and the decoder over the start token.

    Args:
        net: An encoder-decoder.
        inputs: The encoder's inputs, [batch, ...].
        start: The decoder's start token.

    Returns:
        The encoded inputs, and the logits of the token after the start token, [batch, token].
    """
    device, cache = next(net.parameters()).device, Cache()
    memory = net.encode(inputs.to(device))
    starts = torch.full((len(inputs), 1), start, device=device)
    out = net.decode(starts, encoder_hidden_states=memory, cache=cache)
    assert out.logits is not None
    assert net.spec.decoder is not None
    cross = {d: held for d in range(len(net.spec.decoder.order)) if (held := cache.cross(d))}
    sources = [
        EncodedSource({d: (k[row : row + 1], v[row : row + 1]) for d, (k, v) in cross.items()})
        for row in range(len(inputs))
    ]
    return sources, out.logits[:, -1].float()
