"""Evaluation of a training module on held-out data."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from glassformer.errors import ConfigError, DataError
from glassformer.train.data_parallel import gathered, rest
from glassformer.train.distributed import Worker
from glassformer.train.objectives import TrainingBatch
from glassformer.train.objectives.sequence_level import SequenceLevelObjective
from glassformer.train.precision import Precision
from glassformer.train.step import EVALUATION, Sums, TrainingModule, draw_from

SMALLER = ("loss", "perplexity", "error")
"""Metrics for which smaller is better; for all others, larger is better."""


@torch.no_grad()
def evaluate(
    task: TrainingModule,
    run: Callable[[TrainingBatch], Sums],
    batches: Callable[[], Iterator[TrainingBatch]],
    precision: Precision,
    place: Worker,
    seed: int,
) -> dict[str, float]:
    """Computes the loss and the metrics of an objective.

    The result contains the loss, its parts if there are several, the perplexity of a language
    model, and the objective's own metrics.

    Args:
        task: The network and the objective.
        run: The training module, or a wrapper of it, which computes the loss parts.
        batches: Returns the batches of this process.
        precision: Precision of the forward passes.
        place: This process and its device.
        seed: Seed of the random generators.

    Returns:
        Metric values by name, over all processes.
    """
    draw_from(place, seed, EVALUATION)
    was = task.training
    task.eval()
    sums: dict[str, Tensor] = {}
    counts: Counter[str] = Counter()

    def passed() -> Iterator[TrainingBatch]:
        """Yields each batch after its loss was added; the network can be called meanwhile."""
        for batch in batches():
            moved = place.moved(batch)
            moved.heard = {}
            with precision.autocast():
                said = run(moved)
            for part, value in said.items():
                sums[part] = sums.get(part, 0) + value.double()
            counts.update(batch.counts)
            with gathered(task):
                yield moved

    try:
        judged: dict[str, float] = {}
        if isinstance(task.objective, SequenceLevelObjective):
            with precision.autocast():
                judged = task.objective.measure(task.net, passed(), place.gathered)
        else:
            deque(passed(), maxlen=0)
        own = {part: float(value) for part, value in sums.items()}
        return figures(place.total(own), place.total(dict(counts)), task) | judged
    finally:
        rest(task)
        task.train(was)


def figures(
    sums: dict[str, float], counts: dict[str, float], task: TrainingModule
) -> dict[str, float]:
    """Returns the loss, its parts and the perplexity from summed loss parts and counts."""
    weights = task.weights
    parts = {part: total / counts[part] for part, total in sums.items() if counts.get(part)}
    if not parts:
        raise DataError("The validation files hold nothing that could be judged.")
    loss = sum(weights[part] * value for part, value in parts.items())
    found = {"loss": loss}
    if len(parts) > 1:
        found |= {f"loss.{part}": value for part, value in parts.items()}
    if "lm" in parts:
        found["perplexity"] = math.exp(min(parts["lm"], 700.0))
    return found


def is_better(name: str, value: float, best: float | None) -> bool:
    """Returns whether a value of a metric is better than the best one so far.

    A value is better than None and NaN, unless it is NaN itself.
    """
    if best is None or math.isnan(best):
        return not math.isnan(value)
    return value < best if name.split(".")[0] in SMALLER else value > best


def chosen(found: dict[str, float], name: str) -> float:
    """Returns the metric of this name, which `train.metric_for_best_model` selects."""
    if name not in found:
        raise ConfigError(
            f"train.metric_for_best_model is {name!r}, and evaluation gives {', '.join(found)}; "
            "name one of these."
        )
    return found[name]
