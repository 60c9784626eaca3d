"""Micro-batches go through net and objective, forward and backward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from glassformer import adapters
from glassformer.core import Transformer
from glassformer.train.activation_checkpointing import Compiled
from glassformer.train.cpu_kernels import own_kernels
from glassformer.train.distributed import Worker
from glassformer.train.objectives import Objective, TrainingBatch
from glassformer.train.precision import Precision

Sums = dict[str, Tensor]
Factors = Mapping[str, Any]  # of the parts of a loss: numbers, or tensors of one
ADAPTER = "adapter"
EVALUATION = 2**32  # stands where a step's number would, so that evaluation draws its own


class TrainingModule(nn.Module):
    """Net and objective as one module: what is compiled, wrapped and saved. An adapter whose
    ranks are allocated (AdaLoRA) adds a part of its own to the loss."""

    def __init__(self, net: Transformer, objective: Objective) -> None:
        super().__init__()
        self.net = net
        self.objective = objective
        adapter = adapters.active(net)
        settings = None if adapter is None else adapter.settings
        self.adapted = settings.orthogonality if isinstance(settings, adapters.AdaLoRA) else 0.0

    def forward(self, batch: TrainingBatch) -> Sums:
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

    def counts(self, batches: Sequence[TrainingBatch]) -> dict[str, float]:
        """What the parts' sums over these micro-batches are to be divided by."""
        total: Counter[str] = Counter()
        for batch in batches:
            total.update(batch.counts)
        return dict(total) | ({ADAPTER: float(len(batches))} if self.adapted else {})

    def factors(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Of the parts' sums in the loss. A part that nothing of the step belongs to adds nothing
        to the gradients, on no process."""
        return {
            part: weight / counts[part] if counts.get(part) else 0.0
            for part, weight in self.weights.items()
        }


def weighted(sums: Sums, factors: Factors) -> Tensor:
    """The loss: every part's sum, times its weight over its count."""
    return torch.stack([value * factors[part] for part, value in sums.items()]).sum()


@dataclass(frozen=True)
class ForwardBackward:
    """Forward and backward of a micro-batch, whose gradients are added to what is there. Returns
    the sums of the parts. `task` is the task, or what stands in its place."""

    task: Callable[[TrainingBatch], Sums]
    precision: Precision
    place: Worker

    def __call__(self, batch: TrainingBatch, factors: Factors, last: bool = True) -> Sums:
        with accumulating(self.task, last):
            with self.precision.autocast(), own_kernels(self.place.device):
                sums = self.task(batch)
                loss = weighted(sums, factors)
            self.precision.backward(loss * self.place.size)  # of which the engines take the mean
        return {part: value.detach().float() for part, value in sums.items()}


def accumulate_gradients(
    learn: Callable[[TrainingBatch, Factors, bool], Sums],
    batches: Sequence[TrainingBatch],
    factors: Factors,
    place: Worker,
    seed: Sequence[int],
) -> Sums:
    """All micro-batches of a step; the gradients are those of the loss of all together. Dropout is
    drawn from the seed and the number of the micro-batch alone."""
    total: Sums = {}
    for number, batch in enumerate(batches):
        draw_from(place, *seed, number)
        sums = learn(place.moved(batch), factors, number + 1 == len(batches))
        for part, value in sums.items():
            total[part] = total.get(part, 0) + value
    return total


def accumulating(task: Callable[[TrainingBatch], Sums], last: bool) -> AbstractContextManager[Any]:
    """DDP adds up the processes' gradients with the last micro-batch of a step only. FSDP2 does it
    with each, since it has no room for whole gradients."""
    engine = task.engine if isinstance(task, Compiled) else task
    if isinstance(engine, DistributedDataParallel) and not last:
        return engine.no_sync()
    return nullcontext()


def draw_from(place: Worker, *numbers: int) -> None:
    """Random numbers start anew from these, on each process others. (`torch.manual_seed` would
    seed every kind of device, and take as long as a small step.)"""
    state = int(np.random.SeedSequence((*numbers, place.rank)).generate_state(1, np.uint64)[0])
    torch.default_generator.manual_seed(state)
    if place.device.type == "cuda":
        torch.cuda.default_generators[place.device.index or 0].manual_seed(state)
