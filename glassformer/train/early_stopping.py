"""Early stopping: the best evaluation so far, and the end of a run that no longer improves."""

from __future__ import annotations

import math

from glassformer.errors import ConfigError
from glassformer.metrics.registry import find_metric
from glassformer.train.train_state import TrainState


class EarlyStopping:
    """Ends a run after `patience` evaluations without a better one; never if that is 0.

    Args:
        metric: Name of the metric that is compared.
        patience: Number of evaluations to wait for a better one.
        tolerance: Values that differ by less are equal, as few held-out rows cannot tell them
            apart.
    """

    def __init__(self, metric: str, patience: int, tolerance: float = 0.0) -> None:
        self.metric, self.patience, self.tolerance = metric, patience, tolerance

    def is_best(self, state: TrainState, value: float) -> bool:
        """Returns whether no earlier evaluation has a better value.

        Of equal ones, which are frequent with few held-out rows, the last counts: it has learned
        for longer.
        """
        top = state.top
        equal = top is not None and abs(value - top) <= self.tolerance
        return equal or is_better(self.metric, value, top)

    def update(self, state: TrainState, value: float) -> None:
        """Writes the result of an evaluation to the state."""
        improved = is_better(self.metric, value, state.top)
        if self.is_best(state, value):
            state.best, state.best_step = value, state.step
        if improved:
            state.peak = value
        as_good = self.tolerance > 0 and value == state.top  # says nothing with few rows
        waits = not (improved or as_good)
        state.evaluations_since_best = state.evaluations_since_best + 1 if waits else 0
        state.stopped = 0 < self.patience <= state.evaluations_since_best


def is_better(metric: str, value: float, best: float | None) -> bool:
    """Returns whether a value of a metric is better than the best one so far.

    A value is better than None and NaN, unless it is NaN itself.
    """
    if best is None or math.isnan(best):
        return not math.isnan(value)
    return value < best if find_metric(metric).smaller_is_better else value > best


def metric_value(metrics: dict[str, float], name: str) -> float:
    """Returns the metric that `train.metric_for_best_model` names."""
    if name not in metrics:
        raise ConfigError(
            f"train.metric_for_best_model is {name!r}, and evaluation gives {', '.join(metrics)}; "
            "name one of these."
        )
    return metrics[name]
