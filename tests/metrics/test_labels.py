"""Metrics of labels beside numbers that scikit-learn gave, written down here, and beside their
definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from glassformer.metrics import labels

FOUND = [0, 2, 1, 1, 0, 2, 2, 0, 1, 2]
RIGHT = [0, 1, 1, 1, 0, 2, 0, 0, 2, 2]


def test_accuracy():
    assert labels.accuracy(FOUND, RIGHT) == 0.7
    assert labels.accuracy([["a"], []], [["a"], ["b"]]) == 0.5


def test_f1_as_scikit_learn_has_it():
    assert labels.f1(FOUND, RIGHT, "macro") == pytest.approx(0.6984126984126983)
    assert labels.f1(FOUND, RIGHT, "micro") == pytest.approx(0.7)
    found, right = ([int(x > 0) for x in side] for side in (FOUND, RIGHT))
    assert labels.f1(found, right, "binary") == pytest.approx(0.9230769230769231)
    assert labels.f1(found, right, "binary", positive=0) == pytest.approx(6 / 7)
    assert labels.f1([0, 0], [0, 0], "binary") == 0.0


def test_f1_of_several_labels():
    found = np.array([[0, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0], [1, 0, 0, 0], [1, 0, 1, 0]]) > 0
    right = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]]) > 0
    # hits 1, 0, 1, 0 of 4 + 1, 2 + 2, 3 + 1, 0 + 0
    assert labels.f1(found, right, "macro") == pytest.approx((2 / 5 + 0 + 2 / 4 + 0) / 4)
    assert labels.f1(found, right, "micro") == pytest.approx(2 * 2 / 13)


def test_matthews_as_scikit_learn_has_it():
    assert labels.matthews(FOUND, RIGHT) == pytest.approx(0.5606060606060606)
    found, right = ([int(x > 0) for x in side] for side in (FOUND, RIGHT))
    assert labels.matthews(found, right) == pytest.approx(0.8017837257372732)
    # by the formula of two classes: tp 6, tn 3, fp 1, fn 0
    assert labels.matthews(found, right) == pytest.approx(18 / math.sqrt(7 * 6 * 4 * 3))
    assert labels.matthews([1, 1], [0, 1]) == 0.0
