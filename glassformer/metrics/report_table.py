"""Tables of precision, recall, F1 and support, per class and over all classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class ClassScores:
    """Precision, recall, F1 and support (the number of gold instances) of a class.

    A division by 0 gives 0.
    """

    precision: float
    recall: float
    f1: float
    support: int

    @classmethod
    def of(cls, hits: int, found: int, right: int) -> ClassScores:
        return cls(ratio(hits, found), ratio(hits, right), ratio(2 * hits, found + right), right)


@dataclass(frozen=True)
class ScoreTable:
    """The scores of each class, sorted by name, and three averages over the classes.

    `micro` scores all decisions together, `macro` is the mean over the classes, `weighted` their
    mean weighted by support.
    """

    classes: dict[str, ClassScores]
    micro: ClassScores
    macro: ClassScores
    weighted: ClassScores

    @classmethod
    def of(cls, hits: Counter[str], found: Counter[str], right: Counter[str]) -> ScoreTable:
        """Builds the table from how often each class was correct, predicted and gold."""
        rows = {
            name: ClassScores.of(hits[name], found[name], right[name])
            for name in sorted(found | right)
        }
        total = right.total()
        weights = [row.support for row in rows.values()]
        return cls(
            classes=rows,
            micro=ClassScores.of(hits.total(), found.total(), total),
            macro=_mean([*rows.values()], [1] * len(rows), total),
            weighted=_mean([*rows.values()], weights, total),
        )

    def record(self) -> dict[str, Any]:
        return asdict(self)


def ratio(part: float, whole: float) -> float:
    """Divides; a division by 0 gives 0."""
    return part / whole if whole else 0.0


def _mean(rows: Sequence[ClassScores], weights: Sequence[int], support: int) -> ClassScores:
    if not sum(weights):
        return ClassScores(0.0, 0.0, 0.0, support)
    means = np.average([(row.precision, row.recall, row.f1) for row in rows], 0, weights)
    precision, recall, f1 = means.tolist()
    return ClassScores(precision, recall, f1, support)
