"""Train room, metrics: how well answers agree with what is right, in the numbers of each task's
literature. Sequences of answers come in, two of equal length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray


def accuracy(predicted: Sequence[Any], gold: Sequence[Any]) -> float:
    return _share(sum(p == g for p, g in zip(predicted, gold, strict=True)), len(gold))


def f1(
    predicted: ArrayLike,
    gold: ArrayLike,
    average: Literal["macro", "micro", "binary"] = "macro",
    positive: int = 1,
) -> float:
    """The harmonic mean of precision and recall: of the `positive` class alone, of all decisions
    together, or the mean over the classes that occur on either side.

    Classes are numbers, [text]; or of several labels each a flag, [text, label], where "macro" is
    the mean over all labels.
    """
    found, right = np.asarray(predicted), np.asarray(gold)
    if right.ndim == 1:
        classes = np.union1d(found, right) if average != "binary" else np.array([positive])
        found, right = found[:, None] == classes, right[:, None] == classes
    hits = (found & right).sum(0)
    asked = found.sum(0) + right.sum(0)
    if average == "micro":
        return _share(2 * float(hits.sum()), float(asked.sum()))
    each = [_share(2 * float(hit), float(total)) for hit, total in zip(hits, asked, strict=True)]
    return float(np.mean(each))


def matthews(predicted: ArrayLike, gold: ArrayLike) -> float:
    """The correlation of two divisions into classes (Matthews; for several, Gorodkin's)."""
    found, right = np.asarray(predicted), np.asarray(gold)
    classes = np.union1d(found, right)
    f, r = found[:, None] == classes, right[:, None] == classes
    count, hits = float(len(right)), float((found == right).sum())
    sums = f.sum(0).astype(float), r.sum(0).astype(float)
    both = hits * count - sums[0] @ sums[1]
    spread = (count**2 - sums[0] @ sums[0]) * (count**2 - sums[1] @ sums[1])
    return _share(float(both), math.sqrt(spread))


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


# --- helpers -----------------------------------------------------------------------------------


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _ranks(values: NDArray[Any]) -> NDArray[Any]:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: NDArray[Any] = (last - (count - 1) / 2)[place]
    return ranks
