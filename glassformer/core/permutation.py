"""Reading a text in another order than it is written (XLNet's permutations)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Permutation:
    """Which tokens are hidden from which, and which are to be told.

    `hidden` is [batch, query, key], True where a token is not seen; a token sees itself all the
    same. `targets`, [batch, target], are slots at which the model is asked what stands there: a
    stream of queries beside that of the tokens, which sees itself only where `hidden` lets it.
    """

    hidden: Tensor
    targets: Tensor | None = None

    @classmethod
    def of(cls, order: Tensor, targets: Tensor | None = None) -> Self:
        """From the place of every token in the order of reading, [batch, position]: each sees those
        before it. What is given from the start, and seen by all, has a place below 0."""
        hidden = (order[:, :, None] <= order[:, None, :]) & (order >= 0)[:, None, :]
        return cls(hidden, targets)

    def over(self, slots: int) -> Tensor:
        """`hidden` over all slots; those of earlier segments are seen by all."""
        return F.pad(self.hidden, (slots - self.hidden.shape[-1], 0))
