"""Classification of texts, or pairs of texts, with one label or several."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.data.record import Record, invalid
from glassformer.metrics.classification import accuracy, f1, matthews
from glassformer.model import Model
from glassformer.tasks.classify import SEVERAL, SINGLE
from glassformer.tasks.task_settings import keep
from glassformer.train.batches.collate import pad
from glassformer.train.objectives.labels import Labels, label_of
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
from glassformer.train.objectives.tally import Tally
from glassformer.train.objectives.text_inputs import column, count_tokens, require_head
from glassformer.train.objectives.usage_example import UsageExample

SEPARATORS = r"\s*[,;|]\s*"  # between several labels in a text


@objective("classification")
class ClassificationObjective(SequenceLevelObjective):
    """Classification with columns `text`, optionally `pair`, and `label`.

    The label is one of the model's; the loss is the cross-entropy. With `multi_label`, a text has
    any number of independent labels (binary cross-entropy): the column `labels` is a list, or a
    string separated by commas, semicolons or vertical bars. `class_weights` are factors of the loss
    of texts of a label, for labels that are rare; the others have 1.
    """

    pipeline_tag = "text-classification"
    usage = UsageExample("classify", ("The plot is thin.",), ".label")

    columns = ("text", "pair", "label", "labels")
    fields: ClassVar = {**TEXT, "label": np.int32}
    class_weights: Tensor | None  # [label]

    def __init__(
        self,
        model: Model,
        *,
        labels: tuple[str, ...] = (),
        multi_label: bool = False,
        label_smoothing: float = 0.0,
        class_weights: Mapping[str, float] | None = None,
        max_length: int | None = None,
        head: str = "classify",
    ) -> None:
        super().__init__()
        such = "a class such as BertForSequenceClassification"
        require_head(model, head, "classification", such)
        self.texts = TextEncoder(model, max_length, self.tally)
        self.labels = Labels(model, head, labels, self.tally)
        self.several, self.smoothing, self.head = multi_label, label_smoothing, head
        self.weights = {head: 1.0}
        given = class_weights or {}
        for name in given:
            self.labels.id(name, {"where": "objective.class_weights"})
        weights = torch.tensor([given.get(name, 1.0) for name in self.labels.names])
        self.register_buffer("class_weights", weights if given else None, persistent=False)
        kind = SEVERAL if multi_label else SINGLE
        model.config["problem_type"] = kind  # for other programs that read the folder
        if len(model.spec.heads) > 1:  # each may be of another kind
            keep(model, head, problem_type=kind)

    @staticmethod
    def labels_of(record: Record, multi_label: bool = False) -> list[str]:
        return named(record, multi_label)

    def lookahead_tokenize(self, records: Sequence[Record]) -> None:
        self.texts.lookahead_tokenize(records)

    def prepare(self, record: Record) -> Iterable[Example]:
        values = values_of(record, self.several)
        if not self.several and len(values) != 1:
            raise invalid(
                record,
                f"there are {len(values)} labels where one is wanted",
                "objective.multi_label = true if a text may have any number",
            )
        label = np.array([self.labels.id(value, record) for value in values], dtype=np.int32)
        yield {**self.texts.example(record, *text_and_pair(record)), "label": label}

    def check(self, tally: Tally) -> None:
        if not self.several:
            self.labels.check(tally)

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        labels, real = pad(examples, "label")
        if self.several:
            flags = torch.zeros(len(examples), len(self.labels) + 1)
            labels = flags.scatter(1, labels.where(real, len(self.labels)), 1.0)[:, :-1]
        else:
            labels = labels[:, 0]
        counts = {self.head: float(len(examples))}
        inputs = self.texts.inputs(examples, self.slots(examples, self.texts.length))
        return TrainingBatch(inputs, {"label": labels}, counts, count_tokens(examples))

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        """Returns the loss; with several labels, the mean over the labels of each text."""
        logits, label = head_scores(model, batch, self.head), batch.targets["label"]
        if not self.several:
            weight = None if self.class_weights is None else self.class_weights.to(logits.dtype)
            loss = F.cross_entropy(
                logits, label, weight, label_smoothing=self.smoothing, reduction="sum"
            )
            return {self.head: loss}
        wanted = label.to(logits.dtype) * (1 - self.smoothing) + self.smoothing / 2
        weight = None if self.class_weights is None else self.class_weights.to(logits.dtype)
        each = F.binary_cross_entropy_with_logits(
            logits, wanted, reduction="none", pos_weight=weight
        )
        return {self.head: each.mean(-1).sum()}

    def class_scores(self, scores: Tensor, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
        if not self.several:
            return super().class_scores(scores, batch)
        rows = torch.stack((scores, torch.zeros_like(scores)), -1).flatten(0, 1)  # [yes, no]
        return rows, scores.new_full((len(rows),), 1 / len(self.labels))

    def answers(self, model: nn.Module, batch: TrainingBatch) -> list[Answer]:
        logits = head_scores(model, batch, self.head)
        found = logits > 0 if self.several else logits.argmax(-1)
        return list(zip(found.tolist(), batch.targets["label"].tolist(), strict=True))

    def score(self, answers: Sequence[Answer]) -> dict[str, float]:
        """Returns the metrics; of two labels, the second is the positive one."""
        found, right = (np.array(side) for side in zip(*answers, strict=True))
        if self.several:
            flags = found, right.astype(bool)
            return {
                "accuracy": accuracy(found.tolist(), right.astype(bool).tolist()),
                "micro_f1": f1(*flags, "micro"),
                "macro_f1": f1(*flags, "macro"),
            }
        kind: Any = "binary" if len(self.labels) == 2 else "macro"
        return {
            "accuracy": accuracy(found.tolist(), right.tolist()),
            "f1": f1(found, right, kind),
            "matthews": matthews(found, right),
        }


def named(record: Record, several: bool) -> list[str]:
    """Returns the names of a record's labels; `several` says which column is read first."""
    return [label_of(value, record) for value in values_of(record, several)]


def values_of(record: Record, several: bool) -> Sequence[Any]:
    """Returns the labels of a record as the file has them.

    A file may have both columns. Then `labels` is read if a text may have several, and `label`
    otherwise.
    """
    if "labels" not in record or ("label" in record and not several):
        return [column(record, "label")]
    value = record["labels"]
    if isinstance(value, str):
        value = split_labels(value)
    if not isinstance(value, list | tuple):
        raise invalid(record, f"the labels are {value!r:.40}, and not a list")
    return value


def split_labels(text: str) -> list[Any]:
    """Returns the labels in a text: a list, as tables of lists have it, or with separators.

    >>> split_labels("good; fine"), split_labels("['good', 'fine']")
    (['good', 'fine'], ['good', 'fine'])
    """
    if is_list_text(text):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return list(ast.literal_eval(text.strip()))
    return [name for name in re.split(SEPARATORS, text.strip()) if name]


def is_list_text(text: str) -> bool:
    return text.strip()[:1] == "[" and text.strip()[-1:] == "]"
