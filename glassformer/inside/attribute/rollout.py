"""Attention rollout (Abnar and Zuidema, 2020).

It measures how much of every token reaches each position through all layers, assuming that
attention and the residual connections around it are the only computation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.inside.capture.named_tensor import NamedTensor

if TYPE_CHECKING:
    from glassformer.inside.capture.stack_view import StackView


@torch.no_grad()
def rollout(side: StackView, residual: float = 0.5) -> NamedTensor:
    """Computes attention rollout.

    The result is the product over layers of `residual` * identity + (1 - `residual`) * the mean
    pattern of the heads. For cross-attention, it is the share of each encoder token, including the
    encoder's own layers; the rest of a row comes from the decoder's own tokens.

    Args:
        side: The stack, or its cross-attention.
        residual: The weight of the residual connection, from 0 to below 1.

    Returns:
        [query, key]; the rows sum to one (with cross-attention, to at most one).
    """
    if not 0 <= residual < 1:
        raise ConfigError(
            "residual is the weight of the residual connection, at least 0 and below 1, not "
            f"{residual}."
        )
    size = len(side.tokens)
    own = torch.eye(size, device=side.view.output.last_hidden_state.device)
    view, crossed = side.view, bool(side.scope)
    names = [side.name(layer, "pattern") for layer in range(len(side.spec.order))]
    plain = [name.replace(".cross.", ".") for name in names]
    view.capture([*names, *plain])
    source = rollout(view.encoder, residual).array if crossed else None
    other = None if source is None else own.new_zeros(size, len(source))
    for name, cross in zip(plain, names, strict=True):
        mix = residual * torch.eye(size, device=own.device) + (1 - residual) * _mean(
            view.cache[name]
        )
        own = mix @ own
        if other is not None and source is not None:
            attended = view.cache[cross][0].float().mean(0) @ source
            other = residual * (mix @ other) + (1 - residual) * attended
            own = residual * own
    words = [token.text for token in side.tokens]
    if other is None:
        return NamedTensor(
            own, ("query", "key"), {"query": words, "key": words}, "attention roll-out"
        )
    keys = [token.text for token in side.sources]
    return NamedTensor(
        other, ("query", "key"), {"query": words, "key": keys}, "roll-out to the source"
    )


def _mean(pattern: Tensor) -> Tensor:
    """The mean pattern of the heads over the text's own keys, [query, key].

    The weight on an empty memory slot is redistributed among the other keys.
    """
    mean = pattern[0].float().mean(0)
    if mean.shape[1] < mean.shape[0]:
        raise UnsupportedError(
            "In this model several tokens share a key, so attention rollout per token is not "
            "defined."
        )
    mean = mean[:, -len(mean) :]
    return mean / mean.sum(-1, keepdim=True).clamp(min=1e-12)
