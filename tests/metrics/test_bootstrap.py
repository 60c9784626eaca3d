"""Intervals: the same from the same seed, in one way as in the other, and as wide as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from glassformer.errors import GlassformerError
from glassformer.metrics.bootstrap import (
    Draws,
    bootstrap,
    bootstrap_means,
    bootstrap_sums,
    mean_error,
)


def f1(sums):
    return 2 * sums[:, 0] / (sums[:, 1] + sums[:, 2])


def test_sums_give_what_lists_give():
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 6, size=(50, 3))
    draws = Draws(200, seed=7)
    at_once = bootstrap_sums(counts, {"f1": f1}, draws)["f1"]
    lists = bootstrap(list(counts), {"f1": lambda some: float(f1(sum(some)[None])[0])}, draws)["f1"]
    for name, value in at_once.record().items():
        assert value == pytest.approx(getattr(lists, name), rel=1e-12), name
    assert at_once.value == pytest.approx(2 * counts[:, 0].sum() / counts[:, 1:].sum())
    assert at_once.low < at_once.value < at_once.high


def test_the_seed_decides():
    hits = {"accuracy": [1, 0, 1, 1, 0, 1, 0, 0, 1, 1]}
    assert bootstrap_means(hits, Draws(seed=3)) == bootstrap_means(hits, Draws(seed=3))
    ten, others = (bootstrap_means(hits, Draws(37, seed=seed))["accuracy"] for seed in (3, 4))
    assert (ten.low, ten.high) != (others.low, others.high) or ten != others


def test_draws_in_parts_are_the_same_draws(monkeypatch):
    hits = {"a": np.arange(30) % 3}
    whole = bootstrap_means(hits, Draws(64))
    monkeypatch.setattr("glassformer.metrics.bootstrap.PART", 100)
    assert bootstrap_means(hits, Draws(64)) == whole


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_hold_the_truth_as_often_as_they_say(confidence):
    rng = np.random.default_rng(5)
    held = 0
    for trial in range(400):
        sample = rng.normal(0.3, size=80)
        figure = bootstrap_means({"rate": sample}, Draws(300, trial, confidence))["rate"]
        held += figure.low <= 0.3 <= figure.high
    assert held / 400 == pytest.approx(confidence, abs=0.05)


def test_errors_are_those_of_the_mean():
    sample = np.random.default_rng(0).normal(size=400)
    drawn = bootstrap(list(sample), {"mean": lambda some: float(np.mean(some))}, Draws(1000))
    assert mean_error(sample) == pytest.approx(sample.std(ddof=1) / 20)
    assert drawn["mean"].error == pytest.approx(mean_error(sample), rel=0.1)
    assert bootstrap_means({"mean": sample})["mean"].error == mean_error(sample)


def test_draws_without_a_value_are_left_out():
    pairs = [(0, 0.0), (1, 1.0), (0, 0.1)]

    def correlation(some):
        x, y = np.array(some).T
        return math.nan if x.std() == 0 or y.std() == 0 else float(np.corrcoef(x, y)[0, 1])

    figure = bootstrap(pairs, {"r": correlation}, Draws(200))["r"]
    assert not math.isnan(figure.low) and figure.low <= figure.high <= 1.0


def test_no_draws_and_bad_ones():
    assert bootstrap_means({"a": [1, 0]}, Draws(0))["a"].low is None
    assert bootstrap_means({"a": [1.0]})["a"].error is None
    with pytest.raises(GlassformerError, match="nothing that could be judged"):
        bootstrap([], {"a": len})
    with pytest.raises(GlassformerError, match="between 0 and 1"):
        Draws(confidence=95)
    with pytest.raises(GlassformerError, match="0 or more"):
        Draws(-1)
