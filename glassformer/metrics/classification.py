"""Accuracy, F1 and Matthews correlation of predicted classes or labels."""

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
    """Returns the harmonic mean of precision and recall.

    Args:
        predicted: Class numbers, [text]; or for several labels a flag each, [text, label].
        gold: The correct ones, of the same shape.
        average: "binary" is the F1 of the `positive` class, "micro" that of all decisions
            together, "macro" the mean over the classes that occur on either side (with flags, over
            all labels).
        positive: The class of "binary".
    """
    sums = _sums(predicted, gold, [positive] if average == "binary" else None)
    mean = counts.micro_f1 if average == "micro" else counts.macro_f1_of_all
    return float(mean(sums)[0])


def matthews(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Returns the Matthews correlation of two classifications (Gorodkin's for several classes)."""
    return float(counts.matthews(_sums(predicted, gold))[0])


def _sums(predicted: ArrayLike, gold: ArrayLike, of: Sequence[int] | None = None) -> counts.Numbers:
    """Returns the counts of all classes that occur, or of those in `of`, [1, statistic]."""
    found, right = np.asarray(predicted), np.asarray(gold)
    if right.ndim == 1:
        classes = np.union1d(found, right) if of is None else np.array(of)
        found, right = found[:, None] == classes, right[:, None] == classes
    sums: counts.Numbers = counts.of_flags(found, right).sum(0, keepdims=True)
    return sums
