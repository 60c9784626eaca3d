"""Confidence intervals: deterministic, equal for both methods, and of correct coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from glassformer.errors import GlassformerError
from glassformer.metrics.bootstrap import (
    Resamples,
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
    draws = Resamples(200, seed=7)
    at_once = bootstrap_sums(counts, {"f1": f1}, draws)["f1"]
    lists = bootstrap(list(counts), {"f1": lambda some: float(f1(sum(some)[None])[0])}, draws)["f1"]
    for name, value in at_once.record().items():
        assert value == pytest.approx(getattr(lists, name), rel=1e-12), name
    assert at_once.value == pytest.approx(2 * counts[:, 0].sum() / counts[:, 1:].sum())
    assert at_once.low < at_once.value < at_once.high


def test_the_seed_decides():
    hits = {"accuracy": [0.9, 0.1, 0.8, 0.7, 0.2, 0.6, 0.3, 0.4, 0.5, 1]}
    assert bootstrap_means(hits, Resamples(seed=3)) == bootstrap_means(hits, Resamples(seed=3))
    ten, others = (bootstrap_means(hits, Resamples(37, seed=seed))["accuracy"] for seed in (3, 4))
    assert (ten.low, ten.high) != (others.low, others.high) or ten != others


def test_draws_in_parts_are_the_same_draws(monkeypatch):
    hits = {"a": np.arange(30) % 3}
    whole = bootstrap_means(hits, Resamples(64))
    monkeypatch.setattr("glassformer.metrics.bootstrap.PART", 100)
    assert bootstrap_means(hits, Resamples(64)) == whole


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_hold_the_truth_as_often_as_they_say(confidence):
    rng = np.random.default_rng(5)
    held = 0
    for trial in range(400):
        sample = rng.normal(0.3, size=80)
        metric = bootstrap_means({"rate": sample}, Resamples(300, trial, confidence))["rate"]
        held += metric.low <= 0.3 <= metric.high
    assert held / 400 == pytest.approx(confidence, abs=0.05)


def test_errors_are_those_of_the_mean():
    sample = np.random.default_rng(0).normal(size=400)
    drawn = bootstrap(list(sample), {"mean": lambda some: float(np.mean(some))}, Resamples(1000))
    assert mean_error(sample) == pytest.approx(sample.std(ddof=1) / 20)
    assert drawn["mean"].error == pytest.approx(mean_error(sample), rel=0.1)
    assert bootstrap_means({"mean": sample})["mean"].error == mean_error(sample)


# --- against scipy -------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize(
    ("hits", "records"), [(3, 3), (0, 3), (1, 1), (0, 1), (7, 10), (999, 1000)]
)
def test_a_proportion_has_wilsons_interval(hits, records, confidence):
    metric = Resamples(confidence=confidence).proportion([1] * hits + [0] * (records - hits))
    theirs = stats.binomtest(hits, records).proportion_ci(confidence, "wilson")
    assert (metric.low, metric.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert 0 <= metric.low <= metric.value <= metric.high <= 1
    percent = (
        Resamples(confidence=confidence).proportion([True] * hits, scale=100) if hits else None
    )
    assert percent is None or (percent.value, percent.high) == (100, 100)


def ratio(x, y, axis=-1):
    return np.mean(x, axis=axis) / np.mean(y, axis=axis)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [5, 40])
def test_other_metrics_have_the_bca_interval(seed, size):
    rng = np.random.default_rng(seed)
    table = np.ceil(9 * rng.lognormal(size=(size, 2)))  # whole, so that equal sums are equal
    draws = Resamples(500, seed=seed, confidence=0.9)
    options = {
        "n_resamples": 500,
        "confidence_level": 0.9,
        "method": "BCa",
        "paired": True,
        "vectorized": True,
        "rng": np.random.default_rng(seed),  # which draws the same records
    }
    theirs = stats.bootstrap((table[:, 0], table[:, 1]), ratio, **options)
    wanted = theirs.confidence_interval.low, theirs.confidence_interval.high
    sums = bootstrap_sums(table, {"r": lambda s: s[:, 0] / s[:, 1]}, draws)["r"]
    lists = bootstrap(list(table), {"r": lambda some: ratio(*np.array(some).T)}, draws)["r"]
    for metric in (sums, lists):
        assert (metric.low, metric.high) == pytest.approx(wanted, rel=1e-9)
        assert metric.error == pytest.approx(theirs.standard_error, rel=1e-9)


def test_many_records_are_left_out_in_groups():
    sample = np.random.default_rng(2).lognormal(size=3000)
    draws = Resamples(100)
    calls = []

    def mean(some):
        calls.append(len(some))
        return float(np.mean(some))

    lists = bootstrap(list(sample), {"mean": mean}, draws)["mean"]
    assert len(calls) == 201 and calls.count(2970) == 100
    means = bootstrap_means({"mean": sample}, draws)["mean"]
    assert (lists.low, lists.high) == pytest.approx((means.low, means.high), rel=5e-3)


@pytest.mark.parametrize("records", [5, 10, 30])
@pytest.mark.parametrize("p", [0.5, 0.8, 0.95])
def test_wilsons_interval_holds_the_truth_as_often_as_it_says(records, p):
    """Of all samples there are, by their probability; an interval of draws does not come near."""
    held = sum(
        stats.binom.pmf(hits, records, p)
        for hits in range(records + 1)
        if (metric := Resamples().proportion([1] * hits + [0] * (records - hits))).low
        <= p
        <= metric.high
    )
    assert held > 0.9


def variance(sums):
    return sums[:, 1] / sums[:, 2] - (sums[:, 0] / sums[:, 2]) ** 2


def test_the_bca_interval_of_a_biased_metric_holds_the_truth_more_often_than_quantiles_do():
    rng, trials, held, plain = np.random.default_rng(3), 300, 0, 0
    for trial in range(trials):
        sample = rng.normal(size=30)
        table = np.stack((sample, sample**2, np.ones(30)), 1)
        draws = Resamples(400, trial)
        metric = bootstrap_sums(table, {"variance": variance}, draws)["variance"]
        held += metric.low <= 1 <= metric.high
        (places,) = draws.indices(30)
        low, high = np.quantile(variance(table[places].sum(1)), (0.025, 0.975))
        plain += low <= 1 <= high
    assert held / trials > 0.88 > 0.86 > plain / trials


# --- where nothing can be told -------------------------------------------------------------------


@pytest.mark.parametrize("values", [[1.0], [0.3] * 7, [0.0, 0.0]])
def test_records_that_are_all_alike_give_no_interval(values):
    means = bootstrap_means({"a": values})["a"]
    lists = bootstrap(values, {"a": lambda some: sum(some) / len(some)})["a"]
    for metric in (means, lists):
        assert metric.value == pytest.approx(values[0])
        assert metric.low is metric.high is None


def test_an_extreme_confidence_stays_within_the_draws():
    sample = np.array([0.0] * 30 + [100.0])
    metric = bootstrap_means({"a": sample}, Resamples(200, confidence=0.999999))["a"]
    assert 0 <= metric.low <= metric.value <= metric.high


def test_draws_without_a_value_are_left_out():
    pairs = [(0, 0.0), (1, 1.0), (0, 0.1)]

    def correlation(some):
        x, y = np.array(some).T
        return math.nan if x.std() == 0 or y.std() == 0 else float(np.corrcoef(x, y)[0, 1])

    metric = bootstrap(pairs, {"r": correlation}, Resamples(200))["r"]
    assert not math.isnan(metric.low) and metric.low <= metric.high <= 1.0


def test_no_draws_and_bad_ones():
    assert bootstrap_means({"a": [1, 0]}, Resamples(0))["a"].low is None
    assert bootstrap_means({"a": [1.0]})["a"].error is None
    with pytest.raises(GlassformerError, match="nothing to evaluate"):
        bootstrap([], {"a": len})
    with pytest.raises(GlassformerError, match="between 0 and 1"):
        Resamples(confidence=95)
    with pytest.raises(GlassformerError, match="0 or more"):
        Resamples(-1)
