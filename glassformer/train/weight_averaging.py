"""Of the weights of past steps (Polyak and Juditsky, 1992)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from glassformer.train.evaluate import is_better
from glassformer.train.optimizers.shards import local


class WeightAverage:
    """Where there is one (`kept`), it is what is evaluated and published."""

    def __init__(self, weights: dict[str, nn.Parameter], kept: bool) -> None:
        self._weights = weights
        self.tensors: dict[str, Tensor] = (
            {name: weight.detach().clone() for name, weight in weights.items()} if kept else {}
        )

    @torch.no_grad()
    def update(self, share: float) -> None:
        """average = (1 - share) * average + share * weights, after every step."""
        if self.tensors:
            now = [local(self._weights[name].detach()) for name in self.tensors]
            torch._foreach_lerp_(list(map(local, self.tensors.values())), now, share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model has the averaged weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        """Numbers change places, not tensors: what else knows of a weight goes on knowing it."""
        for name, average in self.tensors.items():
            weight, average = local(self._weights[name]), local(average)
            kept = weight.clone()
            weight.copy_(average)
            average.copy_(kept)


def has_settled(figure: str, before: Sequence[float], now: float, after: int) -> bool:
    """Whether an evaluation is worse than the best of those that more than `after` others have
    followed: averaging begins then (NT-ASGD; Merity et al., 2017, as in the authors' program)."""
    earlier = before[: max(0, len(before) - after)]
    return any(is_better(figure, past, now) for past in earlier)
