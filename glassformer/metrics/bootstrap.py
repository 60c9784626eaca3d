"""Metrics room: how sure a figure is. The records that were judged are drawn anew, as many as there
are, with replacement; the middle part of what a metric gives of such draws is its interval.

A metric is a function of all results together. Many are functions of sums over records: a mean, a
perplexity, F1 of counts, BLEU of matches. Those are computed for all draws at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.errors import GlassformerError

Result = TypeVar("Result")
Numbers = NDArray[np.float64]
OfSums = Callable[[Numbers], NDArray[Any]]  # [draw, statistic] to [draw]
PART = 2**22  # so many places are drawn at a time


@dataclass(frozen=True)
class Figure:
    """A metric of all records; with `low` and `high` around what it would be for others like them,
    and `error`, its standard error. Where nothing was drawn these are not known."""

    value: float
    low: float | None = None
    high: float | None = None
    error: float | None = None

    def record(self) -> dict[str, float | None]:
        return asdict(self)


@dataclass(frozen=True)
class Draws:
    """How often records are drawn anew, from which seed on, and how much of the metric's values
    an interval holds. The same draws serve all metrics."""

    count: int = 1000
    seed: int = 0
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.count < 0:
            raise GlassformerError(f"The number of draws must be 0 or more, not {self.count}.")
        if not 0 < self.confidence < 1:
            raise GlassformerError(f"A confidence is between 0 and 1, not {self.confidence}.")

    def places(self, records: int) -> Iterator[NDArray[np.int64]]:
        """[draw, record], a part of the draws at a time."""
        rng = np.random.default_rng(self.seed)
        size = max(1, PART // records)
        for start in range(0, self.count, size):
            yield rng.integers(records, size=(min(size, self.count - start), records))

    def figure(self, value: float, drawn: Sequence[float] | NDArray[Any]) -> Figure:
        """A draw may have no value, such as the correlation of equal numbers."""
        known = np.asarray(drawn, dtype=float)
        known = known[~np.isnan(known)]
        if len(known) < 2:
            return Figure(value)
        rest = (1 - self.confidence) / 2
        low, high = np.quantile(known, (rest, 1 - rest))
        return Figure(value, float(low), float(high), float(known.std(ddof=1)))


def bootstrap(
    results: Sequence[Result],
    metrics: Mapping[str, Callable[[Sequence[Result]], float]],
    draws: Draws | None = None,
) -> dict[str, Figure]:
    """Figures of any metrics, each a function of a list of results, one a record.

    >>> bootstrap(list(zip(found, right)), {"spearman": lambda pairs: spearman(*zip(*pairs))})
    """
    draws = draws or Draws()
    _check(len(results))
    drawn: dict[str, list[float]] = {name: [] for name in metrics}
    for part in draws.places(len(results)):
        for places in part.tolist():
            some = [results[i] for i in places]
            for name, metric in metrics.items():
                drawn[name].append(metric(some))
    return {name: draws.figure(metric(results), drawn[name]) for name, metric in metrics.items()}


def bootstrap_sums(
    statistics: ArrayLike, metrics: Mapping[str, OfSums], draws: Draws | None = None
) -> dict[str, Figure]:
    """The same of metrics that are functions of sums: `statistics`, [record, statistic], are
    added up over all records, or those of a draw.

    >>> bootstrap_sums([[hit, 1] for hit in hits], {"accuracy": lambda s: s[:, 0] / s[:, 1]})
    """
    draws = draws or Draws()
    table: Numbers = np.asarray(statistics, dtype=float)
    _check(len(table))
    sums = [table.sum(0, keepdims=True)]
    for part in draws.places(len(table)):
        times = np.stack([np.bincount(places, minlength=len(table)) for places in part])
        sums.append(times @ table)
    every = np.concatenate(sums)
    found = {name: np.asarray(metric(every), dtype=float) for name, metric in metrics.items()}
    return {name: draws.figure(float(all[0]), all[1:]) for name, all in found.items()}


def bootstrap_means(
    values: Mapping[str, ArrayLike], draws: Draws | None = None
) -> dict[str, Figure]:
    """Of metrics that are means over records. Their standard error is the mean's, of a sample."""
    table = np.stack([np.asarray(numbers, dtype=float) for numbers in values.values()], 1)

    def mean_of(column: int) -> OfSums:
        return lambda sums: sums[:, column] / len(table)

    metrics = {name: mean_of(i) for i, name in enumerate(values)}
    figures = bootstrap_sums(table, metrics, draws)
    return {
        name: Figure(figure.value, figure.low, figure.high, mean_error(table[:, i]))
        for i, (name, figure) in enumerate(figures.items())
    }


def mean_error(values: ArrayLike) -> float | None:
    """Of the mean of a sample: its deviation by the root of its size."""
    numbers = np.asarray(values, dtype=float)
    return float(numbers.std(ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else None


def _check(records: int) -> None:
    if not records:
        raise GlassformerError("There is nothing that could be judged.")
