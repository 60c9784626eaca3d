"""Numbers beside the right ones, and what a text was worth to a language model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def pearson(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Not a number where one side is constant."""
    x, y = (np.asarray(side, dtype=float) for side in (predicted, gold))
    x, y = x - x.mean(), y - y.mean()
    spread = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / spread if spread else math.nan


def spearman(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Pearson's of the ranks; equal values share the mean of theirs."""
    return pearson(_ranks(np.asarray(predicted)), _ranks(np.asarray(gold)))


def perplexity(total: float, count: float) -> float:
    """Of a sum of cross-entropies in nats; infinite where no float can hold it."""
    mean = total / count
    return math.exp(mean) if mean < 709 else math.inf


def _ranks(values: NDArray[Any]) -> NDArray[Any]:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: NDArray[Any] = (last - (count - 1) / 2)[place]
    return ranks
