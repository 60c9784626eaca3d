"""Regression of one number or several for a text, or a pair of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.data.record import Record, invalid
from glassformer.errors import UnsupportedError
from glassformer.metrics.regression import mean_squared_error, pearson, spearman
from glassformer.model import Model
from glassformer.train.batches.collate import pad
from glassformer.train.objectives.objective import TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.rows import Example
from glassformer.train.objectives.sequence_level import (
    TEXT,
    Answer,
    SequenceLevelObjective,
    TextEncoder,
    head_scores,
    text_and_pair,
)
from glassformer.train.objectives.text_inputs import column, count_tokens, require_head


@objective("regression")
class Regression(SequenceLevelObjective):
    """Regression with columns `text`, optionally `pair`, and `value`.

    A value is a number, or a list with one for each output of the head. The loss is the squared
    error, the mean over the outputs.
    """

    pipeline_tag = "text-classification"

    columns = ("text", "pair", "value")
    fields: ClassVar = {**TEXT, "value": np.float32}

    def __init__(
        self, model: Model, *, max_length: int | None = None, head: str = "classify"
    ) -> None:
        super().__init__()
        such = "a class such as BertForSequenceClassification with one label"
        require_head(model, head, "regression", such)
        self.texts = TextEncoder(model, max_length, self.tally)
        self.head = head
        self.outputs = next(one.num_outputs for one in model.spec.heads if one.name == head)
        self.weights = {head: 1.0}
        model.config["problem_type"] = "regression"  # for other programs that read the folder

    @staticmethod
    def labels_of(record: Record) -> list[str]:
        """Returns a label for each value, because a head has one output per label."""
        count = np.size(column(record, "value"))
        return ["value"] if count == 1 else [f"value {i}" for i in range(count)]

    def lookahead_tokenize(self, records: Sequence[Record]) -> None:
        self.texts.lookahead_tokenize(records)

    def prepare(self, record: Record) -> Iterable[Example]:
        value = self._numbers(column(record, "value"), record)
        yield {**self.texts.example(record, *text_and_pair(record)), "value": value}

    def _numbers(self, value: Any, record: Record) -> np.ndarray[Any, Any]:
        try:
            numbers = np.atleast_1d(np.array(value, dtype=np.float32))
        except (TypeError, ValueError):
            numbers = np.array([np.nan])
        if numbers.shape != (self.outputs,) or not np.isfinite(numbers).all():
            wanted = "a number" if self.outputs == 1 else f"{self.outputs} numbers"
            raise invalid(
                record,
                f"the value is {value!r:.40}, and not {wanted}",
                "one for every output of the head, model.labels",
            )
        return numbers

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        value, _ = pad(examples, "value", dtype=torch.float32)
        counts = {self.head: float(len(examples))}
        inputs = self.texts.inputs(examples, self.slots(examples, self.texts.length))
        return TrainingBatch(inputs, {"value": value}, counts, count_tokens(examples))

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        found = head_scores(model, batch, self.head)
        each = F.mse_loss(found, batch.targets["value"].to(found.dtype), reduction="none")
        return {self.head: each.mean(-1).sum()}

    def class_scores(self, scores: Tensor, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
        raise UnsupportedError(
            "A regression has no probabilities to distill; set objective.soft_weight = 0.",
            field="objective.soft_weight",
        )

    def answers(self, model: nn.Module, batch: TrainingBatch) -> list[Answer]:
        found = head_scores(model, batch, self.head).tolist()
        return list(zip(found, batch.targets["value"].tolist(), strict=True))

    def score(self, answers: Sequence[Answer]) -> dict[str, float]:
        """Returns the correlations, each the mean over the outputs, and the mean squared error."""
        found, right = (np.array(side).T for side in zip(*answers, strict=True))  # [output, text]
        pairs = list(zip(found, right, strict=True))
        return {
            "pearson": float(np.mean([pearson(*pair) for pair in pairs])),
            "spearman": float(np.mean([spearman(*pair) for pair in pairs])),
            "error": mean_squared_error(found, right),
        }
