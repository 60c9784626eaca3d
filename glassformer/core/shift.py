"""Shifts a text right by one, as the input of a decoder."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.errors import ConfigError


def last_slots(real: Tensor) -> Tensor:
    """Returns the slot of the last real token, [batch]."""
    return (torch.arange(real.shape[1], device=real.device) * real).argmax(-1)


def last_tokens(tokens: Tensor, mask: Tensor | None) -> Tensor:
    """Returns the last real token of every text, [batch, 1]."""
    return tokens[:, -1:] if mask is None else tokens.gather(1, last_slots(mask)[:, None])


def shifted_right(tokens: Tensor, mask: Tensor | None, start: int | Tensor | None) -> Tensor:
    """Shifts a text right by one, and puts the start token before it."""
    if start is None:
        raise ConfigError(
            "The model's config has no decoder_start_token_id, which its decoder starts from."
        )
    before = torch.nn.functional.pad(tokens[:, :-1], (1, 0))
    if mask is None:
        mask = torch.ones_like(tokens, dtype=torch.bool)
    return torch.where(torch.nn.functional.pad(mask[:, :-1], (1, 0)), before, start)
