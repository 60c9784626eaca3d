"""Evaluation of a training module on held-out data."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from glassformer.errors import DataError
from glassformer.train.data_parallel import reshard, unsharded
from glassformer.train.distributed import Worker
from glassformer.train.objectives import TrainingBatch
from glassformer.train.objectives.sequence_level import SequenceLevelObjective
from glassformer.train.precision import Precision
from glassformer.train.step import EVALUATION, Sums, TrainingModule, seed_generators


@torch.no_grad()
def evaluate(
    module: TrainingModule,
    wrapped_module: Callable[[TrainingBatch], Sums],
    batches: Callable[[], Iterator[TrainingBatch]],
    precision: Precision,
    worker: Worker,
    seed: int,
) -> dict[str, float]:
    """Computes the loss and the metrics of an objective.

    The result contains the loss, its parts if there are several, the perplexity of a language
    model, and the objective's own metrics.

    Args:
        module: The network and the objective.
        wrapped_module: The training module, or a wrapper of it, which computes the loss parts.
        batches: Returns the batches of this process.
        precision: Precision of the forward passes.
        worker: This process and its device.
        seed: Seed of the random generators.

    Returns:
        Metric values by name, over all processes.
    """
    seed_generators(worker, seed, EVALUATION)
    was_training = module.training
    module.eval()
    sums: dict[str, Tensor] = {}
    counts: Counter[str] = Counter()

    def evaluated() -> Iterator[TrainingBatch]:
        """Yields each batch after its loss was added; the network can be called meanwhile."""
        for batch in batches():
            moved = worker.to_device(batch)
            moved.head_outputs = {}
            with precision.autocast():
                loss_sums = wrapped_module(moved)
            for part, value in loss_sums.items():
                sums[part] = sums.get(part, 0) + value.double()
            counts.update(batch.counts)
            with unsharded(module):
                yield moved

    try:
        metrics: dict[str, float] = {}
        if isinstance(module.objective, SequenceLevelObjective):
            with precision.autocast():
                metrics = module.objective.measure(module.net, evaluated(), worker.all_gather)
        else:
            deque(evaluated(), maxlen=0)
        own = {part: float(value) for part, value in sums.items()}
        total, count = worker.sum_over_ranks(own), worker.sum_over_ranks(dict(counts))
        return loss_metrics(total, count, module) | metrics
    finally:
        reshard(module)
        module.train(was_training)


def loss_metrics(
    sums: dict[str, float], counts: dict[str, float], module: TrainingModule
) -> dict[str, float]:
    """Returns the loss, its parts and the perplexity from summed loss parts and counts."""
    weights = module.weights
    parts = {part: total / counts[part] for part, total in sums.items() if counts.get(part)}
    if not parts:
        raise DataError("The validation files have no records that can be evaluated.")
    loss = sum(weights[part] * value for part, value in parts.items())
    metrics = {"loss": loss}
    if len(parts) > 1:
        metrics |= {f"loss.{part}": value for part, value in parts.items()}
    if "lm" in parts:
        metrics["perplexity"] = math.exp(min(parts["lm"], 700.0))
    return metrics
