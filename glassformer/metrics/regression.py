"""Pearson and Spearman correlation, mean squared error, and perplexity.

They are a few lines of numpy; scipy would be a dependency for them alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.metrics.registry import declare_metric, metric


@metric("pearson")
def pearson(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Pearson's correlation, or NaN if one side is constant."""
    x, y = (np.asarray(side, dtype=float) for side in (predicted, gold))
    x, y = x - x.mean(), y - y.mean()
    spread = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / spread if spread else math.nan


@metric("spearman")
def spearman(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Spearman's correlation: Pearson's of the ranks; equal values share their mean rank."""
    return pearson(_ranks(np.asarray(predicted)), _ranks(np.asarray(gold)))


@metric("error", smaller_is_better=True)
def mean_squared_error(predicted: ArrayLike, gold: ArrayLike) -> float:
    """The mean squared error."""
    return float(((np.asarray(predicted) - np.asarray(gold)) ** 2).mean())


@metric("perplexity", smaller_is_better=True)
def perplexity(total: float, count: float) -> float:
    """The perplexity of the tokens.

    It is computed from the number of tokens and the sum of their cross-entropies in nats, and is
    infinite if it exceeds the range of a float.
    """
    mean = total / count
    return math.exp(mean) if mean < 709 else math.inf


def _ranks(values: NDArray[Any]) -> NDArray[Any]:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: NDArray[Any] = (last - (count - 1) / 2)[place]
    return ranks


declare_metric("bits_per_byte", "Bits per byte of the text.", smaller_is_better=True)
declare_metric("word_perplexity", "The perplexity of the words.", smaller_is_better=True)
declare_metric("word_accuracy", "The fraction of words all of whose tokens are correct.")
