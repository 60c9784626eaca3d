"""Tests for changes of a share, compared with scipy's, and their error rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from glassformer import GlassformerError
from glassformer.tasks.monitor.statistics import AlertRule, Shares, fisher, holm, student, varying

LABELS = "abc"


@pytest.mark.parametrize("freedom", [1, 2, 3, 6, 13, 27, 60])
def test_students_t(freedom):
    for t in (0.0, 0.3, -1.0, 2.5, -4.0, 7.0):
        assert student(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), abs=1e-12)


def test_fishers_exact_test():
    rng = np.random.default_rng(1)
    for _ in range(200):
        size, total = rng.integers(1, 60), rng.integers(1, 900)
        count, before = rng.integers(0, size + 1), rng.integers(0, total + 1)
        table = [[count, size - count], [before, total - before]]
        wanted = stats.fisher_exact(table).pvalue
        assert fisher(int(count), int(size), int(before), int(total)) == pytest.approx(wanted)


def test_two_proportions_where_buckets_vary_as_chance_does():
    """By hand: equal buckets have no dispersion of their own, so the pooled z is left."""
    sizes, counts = np.full(10, 100.0), np.full(10, 20.0)
    pooled = (200 + 35) / 1100
    z = (0.35 - 0.2) / math.sqrt(pooled * (1 - pooled) * (1 / 100 + 1 / 1000))
    assert varying(35, 100, counts, sizes) == pytest.approx(student(z, 9))
    uneven = np.array([5.0, 35.0] * 5)  # dispersion 10 * 15² / (100 * 0.2 * 0.8) / 9
    wanted = student(z / math.sqrt(10 * 15**2 / 16 / 9), 9)
    assert varying(35, 100, uneven, sizes) == pytest.approx(wanted)
    assert varying(0, 50, np.zeros(5), np.full(5, 9.0)) == 1.0


def test_holms_correction():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.5]) == [1.0, 1.0] and holm([]) == []


def stream(
    rule: AlertRule, days: int, spread: float | None, seed: int, jump=None, texts=80
) -> Shares:
    """Days of about so many texts; with a `spread` their chances vary from day to day, too."""
    rng = np.random.default_rng(seed)
    shares = Shares(rule, LABELS)
    usual = np.array([0.6, 0.3, 0.1])
    for day in range(days):
        probs = jump[1] if jump is not None and day == jump[0] else usual
        probs = probs if spread is None else rng.dirichlet(np.array(probs) * spread)
        for label, count in zip(LABELS, rng.multinomial(rng.poisson(texts), probs), strict=True):
            for _ in range(count):
                shares.add(day, str(day), label)
    shares.check_alerts()
    return shares


@pytest.mark.parametrize("spread", [None, 60.0])
def test_false_alarms_are_no_more_than_was_said(spread):
    """Also where shares vary from day to day more than texts drawn at random would."""
    shares = stream(AlertRule(alpha=0.05, min_change=0.0), 800, spread, seed=4)
    alarmed = {alert.bucket for alert in shares.alerts}
    assert 0 < len(alarmed) <= 0.05 * 800


def test_the_usual_rule_hardly_ever_errs():
    assert len({alert.bucket for alert in stream(AlertRule(), 800, None, seed=5).alerts}) <= 1


def test_jumps_are_found():
    found = 0
    for seed in range(40):
        shares = stream(AlertRule(), 31, None, seed, jump=(30, [0.35, 0.3, 0.35]), texts=120)
        found += {alert.label for alert in shares.over[-1].alerts} == {"a", "c"}
    assert found >= 38
    alert = shares.over[-1].alerts[0]
    assert (alert.label, alert.up, alert.bucket, alert.ongoing) == ("a", False, "30", False)
    assert alert.texts == shares.over[-1].texts
    assert alert.share == alert.count / alert.texts and alert.p < 0.001
    assert alert.record()["direction"] == "down"


def add(shares: Shares, day: int, a: int, b: int) -> None:
    for label, count in (("a", a), ("b", b)):
        for _ in range(count):
            shares.add(day, str(day), [label])


def test_too_few_texts_too_few_buckets_and_small_changes_raise_nothing():
    for days, last, wanted in [
        (10, (45, 5), ["a", "b"]),
        (6, (45, 5), []),  # a baseline of fewer than seven
        (10, (28, 1), []),  # fewer than thirty texts
        (10, (27, 23), []),  # four points
    ]:
        shares = Shares(AlertRule())
        for day in range(days):
            add(shares, day, 25, 25)
        add(shares, days, *last)
        assert [alert.label for alert in shares.check_alerts()] == wanted
    many = Shares(AlertRule())
    for day in range(10):
        add(many, day, 2500, 2500)
    add(many, 10, 2700, 2300)  # as sure as anything, and of no interest
    assert many.check_alerts() == []


def test_one_text_of_a_label_never_seen_is_no_jump():
    shares = Shares(AlertRule(min_change=0.0))
    for day in range(10):
        add(shares, day, 50, 0)
    add(shares, 10, 49, 1)
    assert shares.check_alerts() == []


def test_what_goes_on_is_said_and_what_comes_late_is_counted():
    shares = Shares(AlertRule())
    for day in range(20):
        add(shares, day, 50, 50)
    add(shares, 20, 90, 10)
    assert [alert.ongoing for alert in shares.check_alerts(before=21)] == [False, False]
    add(shares, 21, 90, 10)
    add(shares, 20, 1, 0)
    assert shares.late == 1
    assert [alert.ongoing for alert in shares.check_alerts()] == [True, True]
    assert len(shares.alerts) == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": 0},
        {"alpha": 1.5},
        {"min_change": 1},
        {"min_buckets": 1},
        {"baseline": 3},
        {"min_texts": 0},
    ],
)
def test_rules_that_are_none(wrong):
    with pytest.raises(GlassformerError):
        AlertRule(**wrong)


def test_the_rule_says_itself():
    said = str(AlertRule(alpha=0.01, baseline=14))
    for word in ("14 buckets", "5.0%", "30 texts", "Fisher", "t-test", "Holm", "below 0.01"):
        assert word in said
