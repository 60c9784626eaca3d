"""Evaluation of text classification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from glassformer.data.record import Record
from glassformer.errors import DataError, GlassformerError
from glassformer.evaluate.evaluator import Evaluator, field, near
from glassformer.metrics.bootstrap import MetricWithCI, Resamples, bootstrap_sums
from glassformer.metrics.classification import (
    OfCounts,
    accuracy_of_counts,
    macro_f1_of_all_counts,
    macro_f1_of_counts,
    matthews_of_counts,
    micro_f1_of_counts,
    of_flags,
)
from glassformer.metrics.report_table import ScoreTable
from glassformer.model import Model
from glassformer.tasks.classify import Classification, Classifier
from glassformer.text.backend import Text
from glassformer.train.objectives.classification import named

ONE_LABEL: dict[str, OfCounts] = {
    "accuracy": accuracy_of_counts,
    "macro_f1": macro_f1_of_counts,
    "micro_f1": micro_f1_of_counts,
    "matthews": matthews_of_counts,
}
SEVERAL_LABELS: dict[str, OfCounts] = {
    "accuracy": accuracy_of_counts,
    "macro_f1": macro_f1_of_all_counts,
    "micro_f1": micro_f1_of_counts,
}


class Labeled(NamedTuple):
    """Text with its correct labels."""

    text: Text
    right: frozenset[str]


class ClassificationEvaluator(Evaluator[Labeled, Classification]):
    """Evaluates classification.

    Columns: `text`, optionally `pair`, and `label`, or `labels` for multi-label classification.
    """

    def __init__(self, model: Model, head: str | None = None) -> None:
        self.classifier = Classifier(model, head=head)
        self.labels = list(self.classifier.labels)
        self.numbers = {name: i for i, name in enumerate(self.labels)}

    def ask(self, record: Record) -> Labeled:
        text, pair = field(record, "text"), record.get("pair")
        field(record, "labels" if "labels" in record else "label")
        right = named(record, self.classifier.several)
        for name in right:
            if name not in self.numbers:
                raise DataError(
                    f"the label {name!r} is not a label of the model{near(name, self.labels)}"
                )
        if not self.classifier.several and len(right) != 1:
            raise DataError(f"there are {len(right)} labels, and the model gives one")
        return Labeled(text if pair is None else (text, pair), frozenset(right))

    def answers(self, inputs: Iterable[Labeled]) -> Iterator[Classification | GlassformerError]:
        return self.classifier(one.text for one in inputs)

    def compute_metrics(
        self, inputs: Sequence[Labeled], answers: Sequence[Classification], draws: Resamples
    ) -> dict[str, MetricWithCI]:
        found = self._flags(answer.labels for answer in answers)
        right = self._flags(one.right for one in inputs)
        which = SEVERAL_LABELS if self.classifier.several else ONE_LABEL
        metrics = bootstrap_sums(of_flags(found, right), which, draws)
        return {**metrics, "accuracy": draws.proportion((found == right).all(1))}

    def classes(self, inputs: Sequence[Labeled], answers: Sequence[Classification]) -> ScoreTable:
        found = Counter(name for answer in answers for name in answer.labels)
        right = Counter(name for one in inputs for name in one.right)
        pairs = zip(inputs, answers, strict=True)
        hits = Counter(name for one, answer in pairs for name in one.right & {*answer.labels})
        return ScoreTable.of(hits, found, right)

    def _flags(self, texts: Iterable[Iterable[str]]) -> np.ndarray[Any, Any]:
        """[text, label]"""
        rows = [[self.numbers[name] for name in names] for names in texts]
        table = np.zeros((len(rows), len(self.labels)), dtype=bool)
        for flags, row in zip(table, rows, strict=True):
            flags[row] = True
        return table
