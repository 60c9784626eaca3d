"""Classes and labels of texts. Answers come in beside the right ones, of equal
number; the figures are those of their counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from glassformer.metrics import counts
from glassformer.metrics.report_table import share


def accuracy(predicted: Sequence[Any], gold: Sequence[Any]) -> float:
    return share(sum(p == g for p, g in zip(predicted, gold, strict=True)), len(gold))


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
    sums = _sums(predicted, gold, [positive] if average == "binary" else None)
    mean = counts.micro_f1 if average == "micro" else counts.macro_f1_of_all
    return float(mean(sums)[0])


def matthews(predicted: ArrayLike, gold: ArrayLike) -> float:
    """The correlation of two divisions into classes (Matthews; for several, Gorodkin's)."""
    return float(counts.matthews(_sums(predicted, gold))[0])


def _sums(predicted: ArrayLike, gold: ArrayLike, of: Sequence[int] | None = None) -> counts.Numbers:
    """The counts of all classes that occur, or of some, [1, statistic]."""
    found, right = np.asarray(predicted), np.asarray(gold)
    if right.ndim == 1:
        classes = np.union1d(found, right) if of is None else np.array(of)
        found, right = found[:, None] == classes, right[:, None] == classes
    sums: counts.Numbers = counts.of_flags(found, right).sum(0, keepdims=True)
    return sums
