"""Confidence intervals of metrics.

A proportion, such as the fraction of correct records, has the score interval of Wilson (1927). For
other metrics the records are resampled with replacement, and the interval is BCa, bias-corrected
and accelerated (Efron, 1987): quantiles of the metric over the resamples, shifted by the fraction
of resamples below its value and by its skewness, which is estimated by leaving out one record at a
time (the jackknife). If all resamples give the same value, as with one record or with identical
records, they carry no information, and there is no interval.

A metric is a function of all results together. Many are functions of sums over records: a mean, a
perplexity, F1 of counts, BLEU of matches. Those are computed for all resamples at once,
from sums instead of resampled records. That is why this is written here and scipy is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.errors import ConfigError, DataError

Result = TypeVar("Result")
Numbers = NDArray[np.float64]
OfSums = Callable[[Numbers], NDArray[Any]]  # [resample, statistic] to [resample]
NORMAL = NormalDist()
ROUNDING = 1e-12  # relative difference up to which values count as equal
PART = 2**22  # the number of indices drawn at a time


@dataclass(frozen=True)
class MetricWithCI:
    """The value of a metric, its confidence interval and its standard error.

    `low` and `high` bound the interval, `error` is the standard error. They are None if they are
    unknown, for example without resamples.
    """

    value: float
    low: float | None = None
    high: float | None = None
    error: float | None = None

    def record(self) -> dict[str, float | None]:
        return asdict(self)


@dataclass(frozen=True)
class Resamples:
    """Settings of the bootstrap; all metrics use the same resamples.

    Args:
        count: The number of resamples; 0 computes no intervals.
        seed: The seed of the random generator.
        confidence: The confidence level of the intervals.
    """

    count: int = 1000
    seed: int = 0
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ConfigError(f"The number of draws must be 0 or more, not {self.count}.")
        if not 0 < self.confidence < 1:
            raise ConfigError(f"A confidence is between 0 and 1, not {self.confidence}.")

    def indices(self, records: int) -> Iterator[NDArray[np.int64]]:
        """Yields record indices, [resample, record], some of the resamples at a time."""
        rng = np.random.default_rng(self.seed)
        size = max(1, PART // records)
        for start in range(0, self.count, size):
            yield rng.integers(records, size=(min(size, self.count - start), records))

    def groups(self, records: int) -> Iterator[tuple[int, int]]:
        """Yields start and end of the groups of records that the jackknife leaves out.

        Each record is a group, unless there are more records than resamples.
        """
        count = min(records, self.count) if records > 1 else 0
        edges = [records * i // count for i in range(count + 1)] if count else []
        return pairwise(edges)

    def with_interval(self, value: float, drawn: ArrayLike, without: ArrayLike) -> MetricWithCI:
        """Computes the BCa interval of a metric.

        Args:
            value: The metric of all records.
            drawn: The metric of each resample. NaN values, such as the correlation of constant
                numbers, are ignored.
            without: The metric without one record, or one group of records, at a time.
        """
        known = _known(drawn)
        if len(known) < 2:
            return MetricWithCI(value)
        error = float(known.std(ddof=1))
        near = ROUNDING * np.abs(known).max()
        if np.ptp(known) <= near:
            return MetricWithCI(value, error=error)
        below = ((known < value - near).mean() + (known <= value + near).mean()) / 2
        least = 0.5 / len(known)
        bias = NORMAL.inv_cdf(min(max(float(below), least), 1 - least))
        skew = acceleration(without)
        ends = [bias + z for z in (-self.z, self.z)]
        shares = [
            NORMAL.cdf(bias + end / (1 - skew * end)) if skew * end < 1 else float(end > 0)
            for end in ends
        ]
        low, high = np.quantile(known, shares)
        return MetricWithCI(value, float(low), float(high), error)

    def proportion(self, hits: ArrayLike, scale: float = 1.0) -> MetricWithCI:
        """Returns the fraction of hits, times `scale`, with Wilson's interval.

        The standard error is that of a mean.
        """
        found = np.asarray(hits, dtype=float)
        _check(len(found))
        n, p = len(found), float(found.mean())
        error = mean_error(scale * found)
        if not self.count:
            return MetricWithCI(scale * p, error=error)
        z = self.z
        middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * (p * (1 - p) / n + z**2 / (4 * n**2)) ** 0.5
        low, high = max(0.0, middle - half), min(1.0, middle + half)
        return MetricWithCI(scale * p, scale * min(low, p), scale * max(high, p), error)

    @property
    def z(self) -> float:
        """How many standard deviations around a normal mean cover the confidence level."""
        return NORMAL.inv_cdf((1 + self.confidence) / 2)


def acceleration(without: ArrayLike) -> float:
    """Returns how fast a metric's standard deviation changes with its value.

    This is a sixth of the skewness of the jackknife values (Efron, 1987).
    """
    values = _known(without)
    if not len(values):
        return 0.0
    far = values.mean() - values
    spread = float((far**2).sum() ** 1.5)
    return float((far**3).sum()) / (6 * spread) if spread else 0.0


def bootstrap(
    results: Sequence[Result],
    metrics: Mapping[str, Callable[[Sequence[Result]], float]],
    draws: Resamples | None = None,
) -> dict[str, MetricWithCI]:
    """Computes metrics with confidence intervals.

    Args:
        results: The results, one per record.
        metrics: Maps names to functions of a list of results.
        draws: The settings of the bootstrap.

    >>> bootstrap(list(zip(found, right)), {"spearman": lambda pairs: spearman(*zip(*pairs))})
    """
    draws = draws or Resamples()
    _check(len(results))
    drawn: dict[str, list[float]] = {name: [] for name in metrics}
    for part in draws.indices(len(results)):
        for places in part.tolist():
            some = [results[i] for i in places]
            for name, metric in metrics.items():
                drawn[name].append(metric(some))
    without: dict[str, list[float]] = {name: [] for name in metrics}
    for start, end in draws.groups(len(results)):
        some = [*results[:start], *results[end:]]
        for name, metric in metrics.items():
            without[name].append(metric(some))
    return {
        name: draws.with_interval(metric(results), drawn[name], without[name])
        for name, metric in metrics.items()
    }


def bootstrap_sums(
    statistics: ArrayLike, metrics: Mapping[str, OfSums], draws: Resamples | None = None
) -> dict[str, MetricWithCI]:
    """Computes metrics that are functions of sums, with confidence intervals.

    Args:
        statistics: The summands, [record, statistic], which are summed over all records or those
            of a resample.
        metrics: Maps names to functions from sums, [resample, statistic], to values, [resample].
        draws: The settings of the bootstrap.

    >>> bootstrap_sums([[hit, 1] for hit in hits], {"accuracy": lambda s: s[:, 0] / s[:, 1]})
    """
    draws = draws or Resamples()
    table: Numbers = np.asarray(statistics, dtype=float)
    _check(len(table))
    sums = [table.sum(0, keepdims=True)]
    for part in draws.indices(len(table)):
        times = np.stack([np.bincount(places, minlength=len(table)) for places in part])
        sums.append(times @ table)
    every, without = np.concatenate(sums), sums[0] - table
    found: dict[str, MetricWithCI] = {}
    for name, metric in metrics.items():
        values = np.asarray(metric(every), dtype=float)
        jackknife = metric(without) if draws.count and len(table) > 1 else ()
        found[name] = draws.with_interval(float(values[0]), values[1:], jackknife)
    return found


def bootstrap_means(
    values: Mapping[str, ArrayLike], draws: Resamples | None = None
) -> dict[str, MetricWithCI]:
    """Computes means over records with confidence intervals.

    The standard error is that of a sample mean, not of the resamples.
    """
    table = np.stack([np.asarray(numbers, dtype=float) for numbers in values.values()], 1)

    def mean_of(column: int) -> OfSums:
        return lambda sums: sums[:, column] / len(table)

    metrics = {name: mean_of(i) for i, name in enumerate(values)}
    metrics_of_sums = bootstrap_sums(table, metrics, draws)
    return {
        name: MetricWithCI(one.value, one.low, one.high, mean_error(table[:, i]))
        for i, (name, one) in enumerate(metrics_of_sums.items())
    }


def mean_error(values: ArrayLike) -> float | None:
    """Returns the standard error of a sample mean, or None for fewer than two values."""
    numbers = np.asarray(values, dtype=float)
    return float(numbers.std(ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else None


def _known(values: ArrayLike) -> Numbers:
    numbers: Numbers = np.asarray(values, dtype=float)
    return np.extract(~np.isnan(numbers), numbers)


def _check(records: int) -> None:
    if not records:
        raise DataError("There is nothing to evaluate.")
