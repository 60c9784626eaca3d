"""Train room, one step: micro-batches go through net and objective, forward and backward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from glassformer import adapters
from glassformer.core import Net
from glassformer.train.cpu import own_kernels
from glassformer.train.distributed import Place
from glassformer.train.objectives import Batch, Objective
from glassformer.train.precision import Precision
from glassformer.train.recompute import Compiled

Sums = dict[str, Tensor]
ADAPTER = "adapter"
EVALUATION = 2**32  # stands where a step's number would, so that evaluation draws its own


class Task(nn.Module):
    """Net and objective as one module: what is compiled, wrapped and saved. An adapter whose
    ranks are allocated (AdaLoRA) adds a part of its own to the loss."""

    def __init__(self, net: Net, objective: Objective) -> None:
        super().__init__()
        self.net = net
        self.objective = objective
        adapter = adapters.active(net)
        settings = None if adapter is None else adapter.settings
        self.adapted = settings.orthogonality if isinstance(settings, adapters.AdaLoRA) else 0.0

    def forward(self, batch: Batch) -> Sums:
        sums: Sums = self.objective(self.net, batch)
        if self.adapted and self.training:
            far = adapters.penalty(self.net)
            assert far is not None
            sums[ADAPTER] = far
        return sums

    @property
    def weights(self) -> dict[str, float]:
        """Of the loss's parts, by name."""
        own = {ADAPTER: self.adapted} if self.adapted else {}
        return self.objective.weights | own

    def counts(self, batches: Sequence[Batch]) -> dict[str, float]:
        """What the parts' sums over these micro-batches are to be divided by."""
        total: Counter[str] = Counter()
        for batch in batches:
            total.update(batch.counts)
        return dict(total) | ({ADAPTER: float(len(batches))} if self.adapted else {})


def weighted(sums: Sums, counts: dict[str, float], weights: dict[str, float]) -> Tensor:
    """The loss: every part's sum over its count, times its weight. A part that nothing of the step
    belongs to adds nothing to the gradients, on no process."""
    parts = [
        value * (weights[part] / counts[part] if counts.get(part) else 0.0)
        for part, value in sums.items()
    ]
    return torch.stack(parts).sum()


def passes(
    task: Callable[[Batch], Sums],
    batches: Sequence[Batch],
    counts: dict[str, float],
    weights: dict[str, float],
    precision: Precision,
    place: Place,
    seed: Sequence[int],
) -> Sums:
    """Forward and backward of all micro-batches of a step; the gradients are those of the loss of
    all together. Returns the sums of the parts. Dropout is drawn from the seed and the number of
    the micro-batch alone."""
    total: Sums = {}
    for number, batch in enumerate(batches):
        draw_from(place, *seed, number)
        with accumulating(task, number + 1 == len(batches)):
            with precision.autocast(), own_kernels(place.device):
                sums = task(place.moved(batch))
                loss = weighted(sums, counts, weights)
            precision.backward(loss * place.size)  # of which the engines take the mean
        for part, value in sums.items():
            total[part] = total.get(part, 0) + value.detach().float()
    return total


def accumulating(task: Callable[[Batch], Sums], last: bool) -> AbstractContextManager[Any]:
    """DDP adds up the processes' gradients with the last micro-batch of a step only. FSDP2 does it
    with each, since it has no room for whole gradients."""
    engine = task.engine if isinstance(task, Compiled) else task
    if isinstance(engine, DistributedDataParallel) and not last:
        return engine.no_sync()
    return nullcontext()


def draw_from(place: Place, *numbers: int) -> None:
    """Random numbers start anew from these, on each process others. (`torch.manual_seed` would
    seed every kind of device, and take as long as a small step.)"""
    state = int(np.random.SeedSequence((*numbers, place.rank)).generate_state(1, np.uint64)[0])
    torch.default_generator.manual_seed(state)
    if place.device.type == "cuda":
        torch.cuda.default_generators[place.device.index or 0].manual_seed(state)
