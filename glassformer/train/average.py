"""Train room, averages: weights of which the past steps count ever less (Polyak and Juditsky)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from glassformer.train.optimizers.shards import local


class Average:
    """average = decay * average + (1 - decay) * weights, after every step, from the first weights
    on. Where there is one, it is what is evaluated and published."""

    def __init__(self, weights: dict[str, nn.Parameter], decay: float) -> None:
        self.decay = decay
        self._weights = weights
        kept = weights if decay else {}
        self.tensors: dict[str, Tensor] = {k: w.detach().clone() for k, w in kept.items()}

    @torch.no_grad()
    def update(self) -> None:
        if self.tensors:
            now = [local(self._weights[name].detach()) for name in self.tensors]
            torch._foreach_lerp_(list(map(local, self.tensors.values())), now, 1 - self.decay)

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
