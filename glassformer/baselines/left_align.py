"""Moves texts to the beginning of their rows, for recurrent and convolutional layers.

Attention excludes padding by a mask, wherever it is. A recurrence or a convolution must not read
padding between or before tokens: real tokens are moved together first, and moved back afterward.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.core.pass_context import PassContext


class LeftAlignment(NamedTuple):
    """The target slot of each token, and the lengths of the texts."""

    place: Tensor  # [batch, slot]: target slot of each token; real tokens first, then padding
    length: Tensor  # [batch]: number of real tokens

    def move(self, x: Tensor) -> Tensor:
        """Moves every text to the beginning of its row, [batch, slot, width]."""
        return torch.zeros_like(x).scatter(1, self._wide(x), x)

    def back(self, x: Tensor) -> Tensor:
        """The inverse of `move`."""
        return x.gather(1, self._wide(x))

    def padding(self) -> Tensor:
        """Returns the mask of padding after the move, [batch, slot]."""
        return torch.arange(self.place.shape[1], device=self.place.device) >= self.length[:, None]

    def _wide(self, x: Tensor) -> Tensor:
        return self.place[..., None].expand(-1, -1, x.shape[-1])


def left_align(ctx: PassContext, x: Tensor, reverse: bool = False) -> LeftAlignment | None:
    """Returns the alignment of the new tokens, or None if no token has to move.

    Args:
        ctx: The forward pass, which caches the alignment.
        x: [batch, position, width].
        reverse: Also reverse each text.
    """
    key = ("left_align", reverse)
    if key not in ctx.memo:
        ctx.memo[key] = _align(ctx, x, reverse)
    found: LeftAlignment | None = ctx.memo[key]
    return found


def _align(ctx: PassContext, x: Tensor, reverse: bool) -> LeftAlignment | None:
    batch, new = x.shape[:2]
    if ctx.key_mask is not None:
        real = ctx.key_mask[:, -new:]
    elif reverse:
        real = torch.ones(batch, new, dtype=torch.bool, device=x.device)
    else:
        return None
    length = real.sum(-1)
    count = real.cumsum(-1)
    behind = length[:, None] + (~real).cumsum(-1) - 1
    ahead = length[:, None] - count if reverse else count - 1
    return LeftAlignment(torch.where(real, ahead, behind), length)
