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
EVALUATION = 2**32  # replaces the step number in the seed of an evaluation


class TrainingModule(nn.Module):
    """The network and the objective as one module, which is compiled, wrapped and saved.

    An AdaLoRA adapter, whose ranks are allocated during training, adds its own part to the loss.
    """

    def __init__(self, model: Transformer, objective: Objective) -> None:
        super().__init__()
        self.net = model
        self.objective = objective
        adapter = adapters.active(model)
        settings = None if adapter is None else adapter.settings
        self.orthogonality = (
            settings.orth_reg_weight if isinstance(settings, adapters.AdaLoRA) else 0.0
        )

    def forward(self, batch: TrainingBatch) -> Sums:
        sums: Sums = self.objective(self.net, batch)
        if self.orthogonality and self.training:
            penalty = adapters.penalty(self.net)
            assert penalty is not None
            sums[ADAPTER] = penalty
        return sums

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the loss parts, by name."""
        own = {ADAPTER: self.orthogonality} if self.orthogonality else {}
        return self.objective.weights | own

    def counts(self, batches: Sequence[TrainingBatch]) -> dict[str, float]:
        """Returns the counts by which the summed loss parts of these micro-batches are divided."""
        total: Counter[str] = Counter()
        for batch in batches:
            total.update(batch.counts)
        return dict(total) | ({ADAPTER: float(len(batches))} if self.orthogonality else {})

    def factors(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Returns the multipliers of the summed loss parts.

        A part without any element in the step gets a multiplier of 0, so it adds nothing to the
        gradients on any process.
        """
        return {
            part: weight / counts[part] if counts.get(part) else 0.0
            for part, weight in self.weights.items()
        }


def weighted_loss(sums: Sums, factors: Factors) -> Tensor:
    """Returns the loss: the sum over the parts of sum * weight / count."""
    return torch.stack([value * factors[part] for part, value in sums.items()]).sum()


@dataclass(frozen=True)
class ForwardBackward:
    """Runs forward and backward on a micro-batch, adding to the existing gradients.

    Returns the summed loss parts. `module` is the training module or a wrapper of it.
    """

    module: Callable[[TrainingBatch], Sums]
    precision: Precision
    worker: Worker

    def __call__(self, batch: TrainingBatch, factors: Factors, last: bool = True) -> Sums:
        with no_sync_unless(last, self.module):
            with self.precision.autocast(), own_kernels(self.worker.device):
                sums = self.module(batch)
                loss = weighted_loss(sums, factors)
            self.precision.backward(
                loss * self.worker.data_parallel_size
            )  # DDP and FSDP take the mean
        return {part: value.detach().float() for part, value in sums.items()}


def accumulate_gradients(
    forward_backward: Callable[[TrainingBatch, Factors, bool], Sums],
    batches: Sequence[TrainingBatch],
    factors: Factors,
    worker: Worker,
    seed: Sequence[int],
) -> Sums:
    """Runs all micro-batches of a step and accumulates the gradients of their joint loss.

    Dropout depends only on the seed and the index of the micro-batch.

    Args:
        forward_backward: Runs forward and backward on one micro-batch and returns its summed loss
            parts.
        batches: Micro-batches of this process.
        factors: Multipliers of the summed loss parts.
        worker: This process and its device.
        seed: Numbers that seed the random generators.

    Returns:
        The loss parts summed over the micro-batches.
    """
    total: Sums = {}
    for number, batch in enumerate(batches):
        seed_generators(worker, *seed, number)
        sums = forward_backward(worker.to_device(batch), factors, number + 1 == len(batches))
        for part, value in sums.items():
            total[part] = total.get(part, 0) + value
    return total


def no_sync_unless(
    last: bool, module: Callable[[TrainingBatch], Sums]
) -> AbstractContextManager[Any]:
    """Returns a context in which DDP synchronizes gradients only for the last micro-batch.

    FSDP2 reduces gradients after each micro-batch, because it has no memory for full gradients.
    """
    wrapped = module.wrapped_module if isinstance(module, Compiled) else module
    if isinstance(wrapped, DistributedDataParallel) and not last:
        return wrapped.no_sync()
    return nullcontext()


def seed_generators(worker: Worker, *numbers: int) -> None:
    """Seeds the random generators from these numbers and the data-parallel rank.

    `torch.manual_seed` would seed every device type, which takes as long as a small step.
    """
    state = int(
        np.random.SeedSequence((*numbers, worker.data_rank)).generate_state(1, np.uint64)[0]
    )
    torch.default_generator.manual_seed(state)
    if worker.device.type == "cuda":
        torch.cuda.default_generators[worker.device.index or 0].manual_seed(state)
