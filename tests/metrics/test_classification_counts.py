"""Metrics of labels and entities, compared with scikit-learn and seqeval on random inputs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn.metrics as sklearn

from glassformer.metrics import classification as counts


def of(metric, found, right) -> float:
    return float(metric(counts.of_flags(found, right).sum(0, keepdims=True))[0])


@pytest.mark.parametrize("classes", [2, 3, 20])
@pytest.mark.parametrize("seed", range(5))
def test_one_label_a_text(classes, seed):
    rng = np.random.default_rng(seed)
    right = rng.integers(classes, size=60)
    found = np.where(rng.random(60) < 0.5, right, rng.integers(classes, size=60))
    flags = found[:, None] == np.arange(classes), right[:, None] == np.arange(classes)
    assert of(counts.accuracy_of_counts, *flags) == pytest.approx(
        sklearn.accuracy_score(right, found)
    )
    assert of(counts.matthews_of_counts, *flags) == pytest.approx(
        sklearn.matthews_corrcoef(right, found)
    )
    for average, metric in (
        ("macro", counts.macro_f1_of_counts),
        ("micro", counts.micro_f1_of_counts),
    ):
        wanted = sklearn.f1_score(right, found, average=average)
        assert of(metric, *flags) == pytest.approx(wanted)


@pytest.mark.parametrize("seed", range(5))
def test_several_labels_a_text(seed):
    rng = np.random.default_rng(seed)
    right = rng.random((40, 6)) < 0.3
    found = right ^ (rng.random((40, 6)) < 0.2)
    right[:, 5] = found[:, 5] = False  # a label that nobody has
    assert of(counts.accuracy_of_counts, found, right) == pytest.approx(
        sklearn.accuracy_score(right, found)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for average, metric in (
            ("macro", counts.macro_f1_of_all_counts),
            ("micro", counts.micro_f1_of_counts),
        ):
            wanted = sklearn.f1_score(right, found, average=average, zero_division=0)
            assert of(metric, found, right) == pytest.approx(wanted)
        wanted = sklearn.precision_score(right, found, average="micro")
        assert of(counts.precision_of_counts, found, right) == pytest.approx(wanted)
        wanted = sklearn.recall_score(right, found, average="micro")
        assert of(counts.recall_of_counts, found, right) == pytest.approx(wanted)


def test_what_cannot_be_divided_is_0():
    nothing = np.zeros((3, 2), dtype=bool)
    for metric in (
        counts.micro_f1_of_counts,
        counts.macro_f1_of_counts,
        counts.matthews_of_counts,
        counts.precision_of_counts,
    ):
        assert of(metric, nothing, nothing) == 0.0
