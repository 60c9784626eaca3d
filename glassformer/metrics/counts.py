"""Metrics computed from counts of predicted, gold and correct instances of each class.

The functions take sums of such counts, for any number of resamples at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[Any]
Metric = Callable[[Numbers], Numbers]  # [sum, statistic] to [sum]


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


def accuracy(sums: Numbers) -> Numbers:
    return _share(sums[:, 1], sums[:, 0])


def precision(sums: Numbers) -> Numbers:
    """Precision over all classes together, like recall and micro F1."""
    found, _, both = _parts(sums)
    return _share(both.sum(1), found.sum(1))


def recall(sums: Numbers) -> Numbers:
    _, right, both = _parts(sums)
    return _share(both.sum(1), right.sum(1))


def micro_f1(sums: Numbers) -> Numbers:
    found, right, both = _parts(sums)
    return _share(2 * both.sum(1), (found + right).sum(1))


def macro_f1(sums: Numbers) -> Numbers:
    """The mean over the classes that occur on either side."""
    found, right, both = _parts(sums)
    each = _share(2 * both, found + right)
    return _share(each.sum(1), ((found + right) > 0).sum(1).astype(float))


def macro_f1_of_all(sums: Numbers) -> Numbers:
    """The mean over all classes; one that occurs on neither side counts as 0."""
    found, right, both = _parts(sums)
    mean: Numbers = _share(2 * both, found + right).mean(1)
    return mean


def matthews(sums: Numbers) -> Numbers:
    """The Matthews correlation of two classifications (Gorodkin's for several classes)."""
    found, right, both = _parts(sums)
    count = sums[:, 0]
    shared = both.sum(1) * count - (found * right).sum(1)
    spread = (count**2 - (found**2).sum(1)) * (count**2 - (right**2).sum(1))
    return _share(shared, np.sqrt(spread))


OF_ONE_LABEL: dict[str, Metric] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "micro_f1": micro_f1,
    "matthews": matthews,
}
OF_SEVERAL_LABELS: dict[str, Metric] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1_of_all,
    "micro_f1": micro_f1,
}
OF_ENTITIES: dict[str, Metric] = {
    "f1": micro_f1,
    "precision": precision,
    "recall": recall,
    "macro_f1": macro_f1,
    "accuracy": accuracy,
}


def _parts(sums: Numbers) -> Sequence[Numbers]:
    return np.split(sums[:, 2:], 3, axis=1)  # each [sum, class]


def _share(part: Numbers, whole: Numbers) -> Numbers:
    """Divides; a division by 0 gives 0."""
    found: Numbers = np.divide(part, whole, out=np.zeros_like(part, dtype=float), where=whole != 0)
    return found
