"""Accuracy, precision, recall, F1 and Matthews correlation of predicted classes or labels.

The functions `..._of_counts` compute metrics from sums of counts of predicted, gold and correct
instances of each class, for any number of resamples at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.metrics.registry import metric
from glassformer.metrics.report_table import ratio

Numbers = NDArray[Any]
OfCounts = Callable[[Numbers], Numbers]  # [sum, statistic] to [sum]


def accuracy(predicted: Sequence[Any], gold: Sequence[Any]) -> float:
    return ratio(sum(p == g for p, g in zip(predicted, gold, strict=True)), len(gold))


@metric("f1")
def f1(
    predicted: ArrayLike,
    gold: ArrayLike,
    average: Literal["macro", "micro", "binary"] = "macro",
    positive: int = 1,
) -> float:
    """The harmonic mean of precision and recall.

    Args:
        predicted: Class numbers, [text]; or for several labels a flag each, [text, label].
        gold: The correct ones, of the same shape.
        average: "binary" is the F1 of the `positive` class, "micro" that of all decisions
            together, "macro" the mean over the classes that occur on either side (with flags, over
            all labels).
        positive: The class of "binary".
    """
    sums = _sums(predicted, gold, [positive] if average == "binary" else None)
    mean = micro_f1_of_counts if average == "micro" else macro_f1_of_all_counts
    return float(mean(sums)[0])


def matthews(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Returns the Matthews correlation of two classifications (Gorodkin's for several classes)."""
    return float(matthews_of_counts(_sums(predicted, gold))[0])


def _sums(predicted: ArrayLike, gold: ArrayLike, of: Sequence[int] | None = None) -> Numbers:
    """Returns the counts of all classes that occur, or of those in `of`, [1, statistic]."""
    found, right = np.asarray(predicted), np.asarray(gold)
    if right.ndim == 1:
        classes = np.union1d(found, right) if of is None else np.array(of)
        found, right = found[:, None] == classes, right[:, None] == classes
    sums: Numbers = of_flags(found, right).sum(0, keepdims=True)
    return sums


def statistics(
    decided: ArrayLike, hit: ArrayLike, found: ArrayLike, right: ArrayLike, both: ArrayLike
) -> Numbers:
    """Concatenates counts to [record, 2 + 3 classes].

    Args:
        decided: The number of decisions of each record, [record].
        hit: How many of them are correct, [record].
        found: How often each class was predicted, [record, class].
        right: How often each class is gold, [record, class].
        both: How often it is both, [record, class].
    """
    one, other = (np.asarray(numbers, dtype=float)[:, None] for numbers in (decided, hit))
    return np.concatenate((one, other, found, right, both), 1)


def of_flags(found: ArrayLike, right: ArrayLike) -> Numbers:
    """Returns the statistics of texts with labels, [text, label]; a text is one decision."""
    f, r = np.asarray(found, dtype=bool), np.asarray(right, dtype=bool)
    return statistics(np.ones(len(f)), (f == r).all(1), f, r, f & r)


@metric("accuracy")
def accuracy_of_counts(sums: Numbers) -> Numbers:
    """The fraction of decisions that are correct."""
    return _share(sums[:, 1], sums[:, 0])


@metric("precision")
def precision_of_counts(sums: Numbers) -> Numbers:
    """The fraction of predicted instances that are correct, over all classes together."""
    found, _, both = _parts(sums)
    return _share(both.sum(1), found.sum(1))


@metric("recall")
def recall_of_counts(sums: Numbers) -> Numbers:
    """The fraction of gold instances that are predicted, over all classes together."""
    _, right, both = _parts(sums)
    return _share(both.sum(1), right.sum(1))


@metric("micro_f1")
def micro_f1_of_counts(sums: Numbers) -> Numbers:
    """F1 of the decisions on all classes together."""
    found, right, both = _parts(sums)
    return _share(2 * both.sum(1), (found + right).sum(1))


@metric("macro_f1")
def macro_f1_of_counts(sums: Numbers) -> Numbers:
    """The mean F1 of the classes that occur on either side."""
    found, right, both = _parts(sums)
    each = _share(2 * both, found + right)
    return _share(each.sum(1), ((found + right) > 0).sum(1).astype(float))


def macro_f1_of_all_counts(sums: Numbers) -> Numbers:
    """The mean F1 of all classes; one that occurs on neither side counts as 0."""
    found, right, both = _parts(sums)
    mean: Numbers = _share(2 * both, found + right).mean(1)
    return mean


@metric("matthews")
def matthews_of_counts(sums: Numbers) -> Numbers:
    """The Matthews correlation of two classifications (Gorodkin's for several classes)."""
    found, right, both = _parts(sums)
    count = sums[:, 0]
    shared = both.sum(1) * count - (found * right).sum(1)
    spread = (count**2 - (found**2).sum(1)) * (count**2 - (right**2).sum(1))
    return _share(shared, np.sqrt(spread))


def _parts(sums: Numbers) -> Sequence[Numbers]:
    return np.split(sums[:, 2:], 3, axis=1)  # each [sum, class]


def _share(part: Numbers, whole: Numbers) -> Numbers:
    """Divides; a division by 0 gives 0."""
    found: Numbers = np.divide(part, whole, out=np.zeros_like(part, dtype=float), where=whole != 0)
    return found
