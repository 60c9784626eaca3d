"""Metrics of ranked candidates."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from glassformer.metrics.registry import declare_metric, metric


@metric("mrr")
def mean_reciprocal_rank(ranks: ArrayLike) -> float:
    """The mean reciprocal rank of the right candidate; ranks count from 1."""
    return float((1 / np.asarray(ranks)).mean())


declare_metric("acc", "The fraction of questions whose most probable choice is the right one.")
declare_metric("acc_norm", "The same, of log-probabilities per character of a choice.")
declare_metric("acc_bytes", "The same, of log-probabilities per byte of a choice.")
