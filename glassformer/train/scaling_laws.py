"""Scaling laws of runs: how the loss falls with compute, data and parameters.

N is the number of parameters in the layers (without embeddings and heads, as in Kaplan et al.,
2020), D the number of tokens read, C = 6 N D the compute in FLOPs, and L the lowest validation
loss; D is the number of tokens read until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from glassformer.errors import InputError
from glassformer.plotting import Panel, Series
from glassformer.train.compare_runs import differing
from glassformer.train.report.summary import RunSummary
from glassformer.train.scaling_fit import Array, LawFit, fit

FEWEST, FEWEST_JOINT = 4, 6  # minimum number of runs: one more than the number of parameters
VALUES = 3  # minimum number of distinct sizes and token counts for a joint law
ALIKE = ("objective.", "data.validation", "data.format", "tokenizer.")
"""Settings that must be equal for losses to be comparable."""
NAMES = {"compute": "operations (6ND)", "data": "tokens", "parameters": "parameters of the layers"}


@dataclass(frozen=True, kw_only=True)
class Point:
    """The size, data and loss of a run."""

    name: str
    parameters: float
    data: float
    loss: float

    @property
    def compute(self) -> float:
        return 6 * self.parameters * self.data


@dataclass(frozen=True, kw_only=True)
class Trend:
    """The law of one quantity, fitted to the runs on its frontier.

    The frontier consists of the runs that no run with less of the quantity beats. Without a fit,
    `why` gives the reason.
    """

    of: str
    points: Sequence[Point]
    fit: LawFit | None = None
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class ScalingOptimum:
    """The optimal model size and number of tokens for a compute budget, by the joint law."""

    compute: float
    parameters: float
    data: float
    loss: float


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """The fitted laws of a set of runs."""

    points: Sequence[Point]
    trends: Sequence[Trend]
    joint: LawFit | None  # in (parameters, data)
    why: str  # why there is no joint law
    notes: Sequence[str]

    def best(self) -> list[ScalingOptimum]:
        """Returns the optima for the largest run's compute, and for 10 and 100 times as much."""
        if self.joint is None or min(self.joint.law.exponents) <= 0:
            return []
        law, most = self.joint.law, max(point.compute for point in self.points)
        (a, b), (alpha, beta) = law.scales, law.exponents
        found = []
        for compute in (most, 10 * most, 100 * most):  # Hoffmann et al., equation 4
            ratio = (alpha * a / (beta * b)) ** (1 / (alpha + beta))
            parameters = ratio * (compute / 6) ** (beta / (alpha + beta))
            data = compute / 6 / parameters
            loss = law(parameters, data)
            found.append(
                ScalingOptimum(compute=compute, parameters=parameters, data=data, loss=loss)
            )
        return found

    def plain(self) -> dict[str, Any]:
        """Returns the results as values for JSON."""
        return {
            "runs": [{**asdict(point), "compute": point.compute} for point in self.points],
            "laws": {
                trend.of: {
                    "runs": [point.name for point in trend.points],
                    "fit": trend.fit and asdict(trend.fit),
                    "why": trend.why,
                }
                for trend in self.trends
            },
            "joint": {"fit": self.joint and asdict(self.joint), "why": self.why},
            "best": [asdict(best) for best in self.best()],
            "notes": list(self.notes),
        }


def fit_scaling(summaries: Sequence[RunSummary], names: Sequence[str]) -> Scaling:
    """Fits scaling laws to finished runs.

    Args:
        summaries: The runs.
        names: Their names in the results.
    """
    points, notes = _points(summaries, names)
    if len(points) < FEWEST:
        remarks = f" ({'; '.join(notes)})" if notes else ""
        raise InputError(
            f"A power law needs {FEWEST} finished runs or more that differ in size or data; there "
            f"{'is' if len(points) == 1 else 'are'} {len(points)}{remarks}."
        )
    for key in differing(summaries):
        if key.startswith(ALIKE):
            notes.append(f"the runs differ in {key}, so their losses may not be comparable")
    joint, why = _joint(points)
    return Scaling(
        points=points,
        trends=[_trend(points, of) for of in NAMES],
        joint=joint,
        why=why,
        notes=notes,
    )


def frontier(points: Sequence[Point], of: str) -> list[Point]:
    """Returns the points that no other point beats with as much or less of a quantity.

    They show the effect of the quantity where nothing else is the bottleneck.
    """
    kept: list[Point] = []
    for point in sorted(points, key=lambda point: (getattr(point, of), point.loss)):
        if not kept or point.loss < kept[-1].loss:
            kept.append(point)
    return kept


def panels(scaling: Scaling) -> list[Panel]:
    return [_panel(scaling, trend) for trend in scaling.trends]


def _points(summaries: Sequence[RunSummary], names: Sequence[str]) -> tuple[list[Point], list[str]]:
    points, notes = [], []
    for summary, name in zip(summaries, names, strict=True):
        best, about = summary.best("loss"), summary.about
        if summary.run.finished is None:
            notes.append(f"{name} is left out: it is {summary.state}")
        elif best is None or about is None:
            notes.append(f"{name} is left out: nothing was evaluated, for lack of data.validation")
        else:
            loss, step = best
            read = summary.tokens_at(step)
            points.append(Point(name=name, parameters=about.body, data=read, loss=loss))
    return points, notes


def _trend(points: Sequence[Point], of: str) -> Trend:
    kept = frontier(points, of)
    if len(kept) < FEWEST:
        why = f"{len(kept)} of {len(points)} runs improved with more of it, and {FEWEST} are needed"
        return Trend(of=of, points=kept, why=why)
    x = np.array([[getattr(point, of)] for point in kept])
    return Trend(of=of, points=kept, fit=fit(x, _losses(kept)))


def _joint(points: Sequence[Point]) -> tuple[LawFit | None, str]:
    x = np.array([[point.parameters, point.data] for point in points])
    sizes, amounts = (len(np.unique(column)) for column in x.T)
    if len(points) < FEWEST_JOINT or min(sizes, amounts) < VALUES:
        return None, (
            f"it takes {FEWEST_JOINT} runs of {VALUES} sizes and {VALUES} amounts of data; there "
            f"are {len(points)} of {sizes} and {amounts}"
        )
    return fit(x, _losses(points)), ""


def _losses(points: Sequence[Point]) -> Array:
    return np.array([point.loss for point in points])


def _panel(scaling: Scaling, trend: Trend) -> Panel:
    def marks(points: Sequence[Point], name: str, color: int) -> Series:
        return Series(
            name=name,
            x=[getattr(point, trend.of) for point in points],
            y=[point.loss for point in points],
            titles=[point.name for point in points],
            color=color,
            marks=True,
        )

    others = [point for point in scaling.points if point not in trend.points]
    series = [marks(others, "other runs", 7)] if others else []
    if trend.fit is not None:
        law, at = trend.fit.law, [getattr(point, trend.of) for point in trend.points]
        x = [float(value) for value in np.geomspace(min(at), max(at), 100)]
        name = f"{law.scales[0]:.3g} x^-{law.exponents[0]:.3g} + {law.floor:.3g}"
        series.append(Series(name=name, x=x, y=[law(value) for value in x], color=1, dashed=True))
    series.append(marks(trend.points, "best runs", 0))
    title = f"Loss by {trend.of}"
    return Panel(title=title, x=NAMES[trend.of], y="loss", series=series, log_x=True, log_y=True)
