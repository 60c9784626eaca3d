"""Shares of labels over time, and statistical tests for changes.

The rule: when a time bucket is complete, the share of each label in it is compared with its share
in the buckets before it. Two tests must both be significant: Fisher's exact test, which is valid
for few texts, and a two-proportion t-test whose variance is the observed variance between the
earlier buckets (at least binomial). The larger of the two p-values counts, with Holm's correction
over all labels. An alert is raised if it is below `alpha`, the share changed by at least
`min_change`, and there were enough texts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from glassformer.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class AlertRule:
    """The conditions of an alert."""

    alpha: float = 0.001  # the maximum fraction of buckets with a false alarm
    min_change: float = 0.05  # the minimum difference of shares
    baseline: int = 28  # the number of earlier buckets with texts to compare with
    min_buckets: int = 7  # the minimum number of such buckets
    min_texts: int = 30  # the minimum number of texts in a bucket

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1 or not 0 <= self.min_change < 1:
            raise ConfigError("alpha is between 0 and 1, and min_change from 0 to below 1.")
        if not 2 <= self.min_buckets <= self.baseline or self.min_texts < 1:
            raise ConfigError(
                "baseline must be at least min_buckets, min_buckets at least 2, and min_texts at "
                "least 1."
            )

    def __str__(self) -> str:
        return (
            f"A share jumps when it differs from its share in the {self.baseline} buckets before "
            f"(at least {self.min_buckets} with texts) by {self.min_change:.1%} or more, in a "
            f"bucket of at least {self.min_texts} texts, and both Fisher's exact test and a "
            "two-proportion t-test with the variance between those buckets say so: the larger "
            f"p-value, after Holm's correction over all labels, is below {self.alpha:g}. So at "
            f"most {self.alpha:g} of the buckets raise a false alarm."
        )


@dataclass(frozen=True)
class Alert:
    """A significant change of a label's share."""

    bucket: str
    label: str
    share: float
    before: float  # the share in the baseline
    count: int  # texts with the label, out of `texts`
    texts: int
    baseline_count: int
    baseline_texts: int
    p: float  # corrected for the number of labels
    ongoing: bool  # the bucket before had the same alert

    @property
    def up(self) -> bool:
        return self.share > self.before

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "direction": "up" if self.up else "down"}

    def __str__(self) -> str:
        how = "rose" if self.up else "fell"
        return (
            f"{self.bucket}: {self.label} {how} from {self.before:.1%} "
            f"({self.baseline_count:,} of {self.baseline_texts:,}) to {self.share:.1%} "
            f"({self.count:,} of {self.texts:,}), p = {self.p:.1e}"
        )


@dataclass
class Bucket:
    name: str
    texts: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    alerts: list[Alert] = field(default_factory=list)

    def share(self, label: str) -> float:
        return self.counts[label] / self.texts


class Shares:
    """Time buckets by their start, and the rule.

    A bucket is tested once, when it is complete; texts that come later are counted (also in `late`)
    and shown, but raise no alert.
    """

    def __init__(self, rule: AlertRule, labels: Iterable[str] = ()) -> None:
        self.rule = rule
        self.labels = list(dict.fromkeys(labels))
        self.buckets: dict[float, Bucket] = {}
        self.over: list[Bucket] = []  # those that were tested
        self.late = 0
        self._checked_until = -math.inf

    def add(self, begin: float, name: str, labels: Iterable[str]) -> None:
        """Adds a text, with any number of labels, to the bucket that starts at this second."""
        self.late += begin <= self._checked_until
        bucket = self.buckets.setdefault(begin, Bucket(name))
        bucket.texts += 1
        for label in set(labels):
            bucket.counts[label] += 1
            if label not in self.labels:
                self.labels.append(label)

    def check_alerts(self, before: float = math.inf) -> list[Alert]:
        """Tests the buckets that start before a time and were not tested yet."""
        order = sorted(self.buckets)
        found: list[Alert] = []
        for place, begin in enumerate(order):
            if self._checked_until < begin < before:
                window = order[max(place - self.rule.baseline, 0) : place]
                bucket = self.buckets[begin]
                bucket.alerts = self._alerts(bucket, [self.buckets[one] for one in window])
                found += bucket.alerts
                self.over.append(bucket)
                self._checked_until = begin
        return found

    @property
    def alerts(self) -> list[Alert]:
        return [alert for bucket in self.over for alert in bucket.alerts]

    def _alerts(self, bucket: Bucket, earlier: Sequence[Bucket]) -> list[Alert]:
        rule = self.rule
        if bucket.texts < rule.min_texts or len(earlier) < rule.min_buckets:
            return []
        sizes = np.array([one.texts for one in earlier], dtype=float)
        probs = []
        for label in self.labels:
            counts = np.array([one.counts[label] for one in earlier], dtype=float)
            probs.append(difference(bucket.counts[label], bucket.texts, counts, sizes))
        total = int(sizes.sum())
        found: list[Alert] = []
        for label, p in zip(self.labels, holm(probs), strict=True):
            before = sum(one.counts[label] for one in earlier)
            share, usual = bucket.share(label), before / total
            if p < rule.alpha and abs(share - usual) >= rule.min_change:
                last = [one for one in earlier[-1].alerts if one.label == label]
                ongoing = any(one.up == (share > usual) for one in last)
                numbers = (bucket.counts[label], bucket.texts, before, total, p, ongoing)
                found.append(Alert(bucket.name, label, share, usual, *numbers))
        return found


def difference(count: int, size: int, counts: np.ndarray, sizes: np.ndarray) -> float:
    """Returns the p-value of `count` of `size` compared with buckets of `counts` of `sizes`."""
    return max(
        fisher(count, size, int(counts.sum()), int(sizes.sum())),
        varying(count, size, counts, sizes),
    )


def varying(count: int, size: int, counts: np.ndarray, sizes: np.ndarray) -> float:
    """Two-sided two-proportion test for shares that may vary more than by chance.

    The variance is multiplied by the dispersion of the earlier buckets (Pearson's, at least 1).
    """
    total, before = float(sizes.sum()), float(counts.sum())
    usual, pooled = before / total, (before + count) / (total + size)
    if not 0 < pooled < 1:
        return 1.0
    dispersion = 1.0
    if 0 < usual < 1:
        squares = (counts - sizes * usual) ** 2 / (sizes * usual * (1 - usual))
        dispersion = max(1.0, float(squares.sum()) / (len(sizes) - 1))
    error = math.sqrt(dispersion * pooled * (1 - pooled) * (1 / size + 1 / total))
    return student((count / size - usual) / error, len(sizes) - 1)


def fisher(count: int, size: int, before: int, total: int) -> float:
    """Two-sided Fisher's exact test: the probability of all tables that are at most as probable."""
    hits, misses = count + before, size + total - count - before
    low, high = max(0, size - misses), min(size, hits)
    x = np.arange(low, high, dtype=float)
    ratios = (hits - x) * (size - x) / ((x + 1) * (misses - size + x + 1))  # of neighbors
    logs = np.concatenate(([0.0], np.cumsum(np.log(ratios))))
    probs = np.exp(logs - logs.max())
    probs /= probs.sum()
    return min(1.0, float(probs[probs <= probs[count - low] * (1 + 1e-7)].sum()))


def student(t: float, freedom: int) -> float:
    """Returns the two-sided p-value of Student's t.

    Uses the finite sums for integer degrees of freedom of Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    angle = math.atan2(abs(t), math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    term, inner = (cosine, 0.0) if freedom % 2 else (1.0, 0.0)
    for step in range(2 + freedom % 2, freedom + 1, 2):
        inner += term
        term *= cosine**2 * (step - 1) / step
    within = 2 / math.pi * (angle + sine * inner) if freedom % 2 else sine * inner
    return min(1.0, max(1.0 - within, 1e-16))


def holm(probs: Sequence[float]) -> list[float]:
    """Holm's correction: p-values that bound the probability of any false alarm."""
    found = [0.0] * len(probs)
    largest = 0.0
    for place, i in enumerate(sorted(range(len(probs)), key=lambda i: probs[i])):
        largest = max(largest, min(1.0, (len(probs) - place) * probs[i]))
        found[i] = largest
    return found
