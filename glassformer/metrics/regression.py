"""Pearson and Spearman correlation, and perplexity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def pearson(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Returns Pearson's correlation, or NaN if one side is constant."""
    x, y = (np.asarray(side, dtype=float) for side in (predicted, gold))
    x, y = x - x.mean(), y - y.mean()
    spread = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / spread if spread else math.nan


def spearman(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Returns Pearson's correlation of the ranks; equal values share their mean rank."""
    return pearson(_ranks(np.asarray(predicted)), _ranks(np.asarray(gold)))


def perplexity(total: float, count: float) -> float:
    """Returns the perplexity of `count` tokens from the sum of their cross-entropies in nats.

    It is infinite if it exceeds the range of a float.
    """
    mean = total / count
    return math.exp(mean) if mean < 709 else math.inf


def _ranks(values: NDArray[Any]) -> NDArray[Any]:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: NDArray[Any] = (last - (count - 1) / 2)[place]
    return ranks
