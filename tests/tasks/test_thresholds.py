"""Thresholds, compared with an exhaustive search."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer import GlassformerError
from glassformer.tasks.classify import Classification
from glassformer.tasks.monitor.thresholds import best_threshold, best_thresholds


def drawn(seed: int, several: bool) -> list[Classification]:
    rng = np.random.default_rng(seed)
    rows = rng.random((60, 3)) if several else rng.dirichlet([1.0, 1.0, 1.0], 60)
    return [Classification((), dict(zip("abc", map(float, row), strict=True))) for row in rows]


@pytest.mark.parametrize("seed", range(4))
def test_no_other_threshold_gets_more_texts_right(seed):
    results = drawn(seed, several=False)
    rng = np.random.default_rng(seed + 100)
    right = []
    for one in results:
        best = max(one.probabilities, key=one.probabilities.get)
        sure = rng.random() < one.probabilities[best]
        right.append(best if sure else None if rng.random() < 0.7 else "a")

    def accuracy(threshold: float) -> int:
        found = 0
        for one, label in zip(results, right, strict=True):
            best = max(one.probabilities, key=one.probabilities.get)
            found += (best if one.probabilities[best] >= threshold else None) == label
        return found

    chosen = best_threshold(results, right)
    every = [0.0, 1.0, *(max(one.probabilities.values()) for one in results)]
    assert accuracy(chosen) == max(map(accuracy, every))


@pytest.mark.parametrize("seed", range(4))
def test_no_other_threshold_has_a_better_f1(seed):
    results = drawn(seed, several=True)
    rng = np.random.default_rng(seed + 100)
    right = [{k for k, p in one.probabilities.items() if rng.random() < p} for one in results]

    def f1(label: str, threshold: float) -> float:
        said = [one.probabilities[label] >= threshold for one in results]
        true = [label in labels for labels in right]
        hits = sum(a and b for a, b in zip(said, true, strict=True))
        return 2 * hits / (sum(said) + sum(true))

    chosen = best_thresholds(results, right)
    for label in "abc":
        every = [one.probabilities[label] for one in results]
        assert f1(label, chosen[label]) == pytest.approx(max(f1(label, t) for t in every))


def test_a_label_that_never_was_right_and_none_at_all():
    results = drawn(1, several=True)
    assert best_thresholds(results, [{"a"}] * 60)["b"] == 0.5
    assert best_threshold(results, [None] * 60) == 1.0
    with pytest.raises(GlassformerError, match="60 results and 2 correct labels"):
        best_threshold(results, ["a", "b"])
