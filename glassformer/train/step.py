"""One training step: forward and backward passes over micro-batches."""

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
Factors = Mapping[str, Any]  # multipliers of the loss parts: numbers, or scalar tensors
ADAPTER = "adapter"
EVALUATION = 2**32  # takes the place of the step number in the seed of an evaluation


class TrainingModule(nn.Module):
    """The network and the objective as one module, which is compiled, wrapped and saved.

    An AdaLoRA adapter, whose ranks are allocated during training, adds its own part to the loss.
    """

    def __init__(self, net: Transformer, objective: Objective) -> None:
        super().__init__()
        self.net = net
        self.objective = objective
        adapter = adapters.active(net)
        settings = None if adapter is None else adapter.settings
        self.adapted = settings.orth_reg_weight if isinstance(settings, adapters.AdaLoRA) else 0.0

    def forward(self, batch: TrainingBatch) -> Sums:
        sums: Sums = self.objective(self.net, batch)
        if self.adapted and self.training:
            far = adapters.penalty(self.net)
            assert far is not None
            sums[ADAPTER] = far
        return sums

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the loss parts, by name."""
        own = {ADAPTER: self.adapted} if self.adapted else {}
        return self.objective.weights | own

    def counts(self, batches: Sequence[TrainingBatch]) -> dict[str, float]:
        """Returns the counts by which the summed loss parts of these micro-batches are divided."""
        total: Counter[str] = Counter()
        for batch in batches:
            total.update(batch.counts)
        return dict(total) | ({ADAPTER: float(len(batches))} if self.adapted else {})

    def factors(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Returns the multipliers of the summed loss parts.

        A part without any element in the step gets a multiplier of 0, so it adds nothing to the
        gradients on any process.
        """
        return {
            part: weight / counts[part] if counts.get(part) else 0.0
            for part, weight in self.weights.items()
        }


def weighted(sums: Sums, factors: Factors) -> Tensor:
    """Returns the loss: the sum over the parts of sum * weight / count."""
    return torch.stack([value * factors[part] for part, value in sums.items()]).sum()


@dataclass(frozen=True)
class ForwardBackward:
    """Runs forward and backward on a micro-batch, adding to the existing gradients.

    Returns the summed loss parts. `task` is the training module or a wrapper of it.
    """

    task: Callable[[TrainingBatch], Sums]
    precision: Precision
    place: Worker

    def __call__(self, batch: TrainingBatch, factors: Factors, last: bool = True) -> Sums:
        with accumulating(self.task, last):
            with self.precision.autocast(), own_kernels(self.place.device):
                sums = self.task(batch)
                loss = weighted(sums, factors)
            self.precision.backward(loss * self.place.size)  # DDP and FSDP take the mean
        return {part: value.detach().float() for part, value in sums.items()}


def accumulate_gradients(
    learn: Callable[[TrainingBatch, Factors, bool], Sums],
    batches: Sequence[TrainingBatch],
    factors: Factors,
    place: Worker,
    seed: Sequence[int],
) -> Sums:
    """Runs all micro-batches of a step and accumulates the gradients of their joint loss.

    Dropout depends only on the seed and the index of the micro-batch.

    Args:
        learn: Runs forward and backward on one micro-batch and returns its summed loss parts.
        batches: Micro-batches of this process.
        factors: Multipliers of the summed loss parts.
        place: This process and its device.
        seed: Numbers that seed the random generators.

    Returns:
        The loss parts summed over the micro-batches.
    """
    total: Sums = {}
    for number, batch in enumerate(batches):
        draw_from(place, *seed, number)
        sums = learn(place.moved(batch), factors, number + 1 == len(batches))
        for part, value in sums.items():
            total[part] = total.get(part, 0) + value
    return total


def accumulating(task: Callable[[TrainingBatch], Sums], last: bool) -> AbstractContextManager[Any]:
    """Returns a context in which DDP synchronizes gradients only for the last micro-batch.

    FSDP2 reduces gradients after each micro-batch, because it has no memory for full gradients.
    """
    engine = task.engine if isinstance(task, Compiled) else task
    if isinstance(engine, DistributedDataParallel) and not last:
        return engine.no_sync()
    return nullcontext()


def draw_from(place: Worker, *numbers: int) -> None:
    """Seeds the random generators from these numbers and the data-parallel rank.

    `torch.manual_seed` would seed every device type, which takes as long as a small step.
    """
    state = int(np.random.SeedSequence((*numbers, place.rank)).generate_state(1, np.uint64)[0])
    torch.default_generator.manual_seed(state)
    if place.device.type == "cuda":
        torch.cuda.default_generators[place.device.index or 0].manual_seed(state)
