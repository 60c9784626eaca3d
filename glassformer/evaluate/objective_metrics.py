"""Evaluation of regression and multiple choice with the metrics of their training objectives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from glassformer.data.record import Record
from glassformer.errors import GlassformerError
from glassformer.evaluate.evaluator import Evaluator
from glassformer.metrics.bootstrap import MetricWithCI, Resamples, bootstrap
from glassformer.model import Model
from glassformer.tasks.batching import batched
from glassformer.train.objectives.objective import TrainingBatch
from glassformer.train.objectives.rows import Example
from glassformer.train.objectives.sequence_level import Answer, SequenceLevelObjective

SIDE_BY_SIDE = 16  # records per batch; the records of a pool are first sorted by length


class ObjectiveEvaluator(Evaluator[Example, Answer]):
    """Evaluates with the columns, answers and metrics of a training objective.

    Metrics in `proportions` are proportions of correct records.
    """

    def __init__(
        self, model: Model, objective: SequenceLevelObjective, proportions: Sequence[str] = ()
    ) -> None:
        self.model, self.objective, self.proportions = model, objective, proportions

    def ask(self, record: Record) -> Example:
        (example,) = self.objective.prepare(record)
        return example

    def answers(self, inputs: Iterable[Example]) -> Iterator[Answer | GlassformerError]:
        for pool in batched(inputs):
            order = sorted(range(len(pool)), key=lambda i: -len(pool[i]["tokens"]))
            found: dict[int, Answer] = {}
            for start in range(0, len(order), SIDE_BY_SIDE):
                rows = order[start : start + SIDE_BY_SIDE]
                batch = self._moved(self.objective.collate([pool[i] for i in rows]))
                with torch.inference_mode():
                    answers = self.objective.answers(self.model, batch)
                found |= zip(rows, answers, strict=True)
            yield from (found[i] for i in range(len(pool)))

    def _moved(self, batch: TrainingBatch) -> TrainingBatch:
        device = self.model.device
        inputs, targets = (
            {name: value.to(device) for name, value in side.items()}
            for side in (batch.inputs, batch.targets)
        )
        return TrainingBatch(inputs, targets, batch.counts, batch.tokens)

    def compute_metrics(
        self, inputs: Sequence[Example], answers: Sequence[Answer], draws: Resamples
    ) -> dict[str, MetricWithCI]:
        def metric(name: str) -> Any:
            return lambda some: self.objective.score(some)[name]

        names = [n for n in self.objective.score(answers) if n not in self.proportions]
        each = [self.objective.score([one]) for one in answers] if self.proportions else []
        shares = {name: draws.proportion([one[name] for one in each]) for name in self.proportions}
        rest = bootstrap(answers, {name: metric(name) for name in names}, draws) if names else {}
        return {**shares, **rest}
