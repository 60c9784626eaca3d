"""Texts moved to the beginning of their rows, for layers that walk along them.

Attention leaves padding out by a mask, wherever it stands. A state that walks, or a window that
slides, must not meet it at all: real tokens are brought together first, and put back after.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.core.pass_context import PassContext


class LeftAlignment(NamedTuple):
    place: Tensor  # [batch, slot]: where each token goes; real ones first, padding behind them
    length: Tensor  # [batch]: so many are real

    def move(self, x: Tensor) -> Tensor:
        """[batch, slot, width], with every text at the beginning of its row."""
        return torch.zeros_like(x).scatter(1, self._wide(x), x)

    def back(self, x: Tensor) -> Tensor:
        """The inverse of `move`."""
        return x.gather(1, self._wide(x))

    def padding(self) -> Tensor:
        """[batch, slot], True behind the texts once they were moved."""
        return torch.arange(self.place.shape[1], device=self.place.device) >= self.length[:, None]

    def _wide(self, x: Tensor) -> Tensor:
        return self.place[..., None].expand(-1, -1, x.shape[-1])


def left_align(ctx: PassContext, x: Tensor, turned: bool = False) -> LeftAlignment | None:
    """For the new tokens of this pass, `turned` from last to first; None where all stay."""
    key = ("lineup", turned)
    if key not in ctx.memo:
        ctx.memo[key] = _line_up(ctx, x, turned)
    found: LeftAlignment | None = ctx.memo[key]
    return found


def _line_up(ctx: PassContext, x: Tensor, turned: bool) -> LeftAlignment | None:
    batch, new = x.shape[:2]
    if ctx.key_mask is not None:
        real = ctx.key_mask[:, -new:]
    elif turned:
        real = torch.ones(batch, new, dtype=torch.bool, device=x.device)
    else:
        return None
    length = real.sum(-1)
    count = real.cumsum(-1)
    behind = length[:, None] + (~real).cumsum(-1) - 1
    ahead = length[:, None] - count if turned else count - 1
    return LeftAlignment(torch.where(real, ahead, behind), length)
