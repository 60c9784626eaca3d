"""Metrics of labels beside scikit-learn's, of random and of real ones, and beside their
definitions."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from glassformer.metrics import classification

FOUND = [0, 2, 1, 1, 0, 2, 2, 0, 1, 2]
RIGHT = [0, 1, 1, 1, 0, 2, 0, 0, 2, 2]


def test_accuracy():
    assert classification.accuracy(FOUND, RIGHT) == 0.7
    assert classification.accuracy([["a"], []], [["a"], ["b"]]) == 0.5


def test_f1_as_scikit_learn_has_it():
    assert classification.f1(FOUND, RIGHT, "macro") == pytest.approx(0.6984126984126983)
    assert classification.f1(FOUND, RIGHT, "micro") == pytest.approx(0.7)
    found, right = ([int(x > 0) for x in side] for side in (FOUND, RIGHT))
    assert classification.f1(found, right, "binary") == pytest.approx(0.9230769230769231)
    assert classification.f1(found, right, "binary", positive=0) == pytest.approx(6 / 7)
    assert classification.f1([0, 0], [0, 0], "binary") == 0.0


def test_f1_of_several_labels():
    found = np.array([[0, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0], [1, 0, 0, 0], [1, 0, 1, 0]]) > 0
    right = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]]) > 0
    # hits 1, 0, 1, 0 of 4 + 1, 2 + 2, 3 + 1, 0 + 0
    assert classification.f1(found, right, "macro") == pytest.approx((2 / 5 + 0 + 2 / 4 + 0) / 4)
    assert classification.f1(found, right, "micro") == pytest.approx(2 * 2 / 13)


def test_matthews_as_scikit_learn_has_it():
    assert classification.matthews(FOUND, RIGHT) == pytest.approx(0.5606060606060606)
    found, right = ([int(x > 0) for x in side] for side in (FOUND, RIGHT))
    assert classification.matthews(found, right) == pytest.approx(0.8017837257372732)
    # by the formula of two classes: tp 6, tn 3, fp 1, fn 0
    assert classification.matthews(found, right) == pytest.approx(18 / math.sqrt(7 * 6 * 4 * 3))
    assert classification.matthews([1, 1], [0, 1]) == 0.0


def real_labels() -> tuple[list[str], list[str]]:
    """What every word of the documentation ends with, and a guess by the word before it."""
    text = (Path(__file__).parent.parent.parent / "docs" / "train.md").read_text("utf-8")
    endings = [word[-1] for word in re.findall("[a-z]+", text.lower())]
    usual = {}
    for before, after in zip(endings[::2], endings[1::2], strict=False):
        usual.setdefault(before, after)
    return [usual.get(before, "e") for before in endings[:-1]], endings[1:]


@pytest.mark.parametrize("seed", [None, *range(6)])
def test_as_scikit_learn_has_it(seed):
    sklearn = pytest.importorskip("sklearn.metrics")
    if seed is None:
        found, right = real_labels()
    else:
        rng = np.random.default_rng(seed)
        right = rng.integers(seed + 2, size=200)
        found = np.where(rng.random(200) < 0.6, right, rng.integers(seed + 2, size=200))
    assert classification.accuracy(found, right) == pytest.approx(
        sklearn.accuracy_score(right, found)
    )
    assert 0.05 < classification.accuracy(found, right) < 0.95
    for average in ("macro", "micro"):
        theirs = sklearn.f1_score(right, found, average=average)
        assert classification.f1(found, right, average) == pytest.approx(theirs)
    assert classification.matthews(found, right) == pytest.approx(
        sklearn.matthews_corrcoef(right, found)
    )


@pytest.mark.parametrize("seed", range(4))
def test_several_labels_as_scikit_learn_has_them(seed):
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    right = rng.random((60, 5)) < 0.3
    found = right ^ (rng.random((60, 5)) < 0.2)
    found[:, 4] = right[:, 4] = False  # a label that nobody has
    for average in ("macro", "micro"):
        theirs = sklearn.f1_score(right, found, average=average, zero_division=0)
        assert classification.f1(found, right, average) == pytest.approx(theirs)
