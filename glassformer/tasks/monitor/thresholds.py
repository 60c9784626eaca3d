"""Finds classification thresholds from texts with known labels."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from glassformer.errors import InputError
from glassformer.tasks.classify import Classification


def best_threshold(results: Sequence[Classification], right: Sequence[str | None]) -> float:
    """Returns the threshold of a single-label model that gets the most texts right.

    `right` is None for a text that has none of the labels (out of scope).
    """
    check(results, right)
    probabilities = np.array([max(one.probabilities.values()) for one in results])
    predicted = [max(one.probabilities, key=one.probabilities.__getitem__) for one in results]
    gains = np.array([(a == b) - (b is None) for a, b in zip(predicted, right, strict=True)])
    return _best(probabilities, gains.astype(float))


def best_thresholds(
    results: Sequence[Classification], right: Sequence[Collection[str]]
) -> dict[str, float]:
    """Returns for each label of a multi-label model the threshold with the best F1."""
    check(results, right)
    found: dict[str, float] = {}
    for label in results[0].probabilities:
        probabilities = np.array([one.probabilities[label] for one in results])
        true = np.array([label in labels for labels in right])
        order = np.argsort(-probabilities, kind="stable")
        hits, predicted = np.cumsum(true[order]), np.arange(1, len(order) + 1)
        scores = 2 * hits / (predicted + true.sum())  # F1 if all up to here apply
        found[label] = _between(probabilities[order], int(scores.argmax())) if true.any() else 0.5
    return found


def _best(probabilities: np.ndarray, gains: np.ndarray) -> float:
    """Returns the threshold above which the sum of the gains is largest."""
    order = np.argsort(-probabilities, kind="stable")
    sums = np.cumsum(gains[order])
    place = int(sums.argmax())
    return 1.0 if sums[place] < 0 else _between(probabilities[order], place)


def _between(falling: np.ndarray, last: int) -> float:
    """Returns the midpoint of the last probability above the threshold and the first below."""
    after = falling[last + 1] if last + 1 < len(falling) else 0.0
    return float((falling[last] + after) / 2)


def check(results: Sequence[Classification], right: Sequence[object]) -> None:
    if not results or len(results) != len(right):
        raise InputError(
            f"There are {len(results)} results and {len(right)} correct labels; thresholds "
            "need at least one result, and one label per result."
        )
