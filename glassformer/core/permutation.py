"""Factorization orders: reading a text in another order than it is written (XLNet)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Permutation:
    """Which tokens are hidden from which, and which are predicted.

    Attributes:
        hidden: [batch, query, key], True where a token is hidden; a token always sees itself.
        targets: [batch, target]: slots to predict. They form a query stream parallel to the tokens,
            which sees its own token only if `hidden` allows it.
    """

    hidden: Tensor
    targets: Tensor | None = None

    @classmethod
    def from_order(cls, order: Tensor, targets: Tensor | None = None) -> Self:
        """Creates a permutation in which each token sees those before it in the order.

        Args:
            order: Index of every token in the order, [batch, position]. Tokens below 0 are given
                from the start and visible to all.
            targets: [batch, target]: slots to predict.
        """
        hidden = (order[:, :, None] <= order[:, None, :]) & (order >= 0)[:, None, :]
        return cls(hidden, targets)

    def mask_over(self, slots: int) -> Tensor:
        """Extends `hidden` to all slots; those of earlier segments are visible to all."""
        return F.pad(self.hidden, (slots - self.hidden.shape[-1], 0))
