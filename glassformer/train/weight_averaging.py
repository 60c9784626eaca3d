"""Averages of the weights over training steps (Polyak and Juditsky, 1992).

It is written here, because torch's `AveragedModel` is a copy of the model, and here the model gets
the average while it is evaluated, also if its weights are sharded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from glassformer.train.early_stopping import is_better
from glassformer.train.optimizers.shards import local


class WeightAverage:
    """The average of the weights; if it exists (`kept`), it is what is evaluated and exported."""

    def __init__(self, weights: dict[str, nn.Parameter], kept: bool) -> None:
        self._weights = weights
        self.tensors: dict[str, Tensor] = (
            {name: weight.detach().clone() for name, weight in weights.items()} if kept else {}
        )

    @torch.no_grad()
    def update(self, share: float) -> None:
        """Sets average = (1 - share) * average + share * weights, after each step."""
        if self.tensors:
            now = [local(self._weights[name].detach()) for name in self.tensors]
            torch._foreach_lerp_(list(map(local, self.tensors.values())), now, share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Gives the model the averaged weights inside the context."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        """Swaps values, not tensors, so that all references to the weights stay valid."""
        for name, average in self.tensors.items():
            weight, average = local(self._weights[name]), local(average)
            kept = weight.clone()
            weight.copy_(average)
            average.copy_(kept)


def has_settled(metric: str, before: Sequence[float], now: float, after: int) -> bool:
    """Returns whether weight averaging should begin (NT-ASGD; Merity et al., 2017).

    As in the authors' program, it begins when an evaluation is worse than the best of those that
    are more than `after` evaluations old.

    Args:
        metric: Name of the metric.
        before: Metric values of all earlier evaluations.
        now: Metric value of the current evaluation.
        after: Number of recent evaluations to ignore.
    """
    earlier = before[: max(0, len(before) - after)]
    return any(is_better(metric, past, now) for past in earlier)
