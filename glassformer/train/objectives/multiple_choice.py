"""Multiple choice: selects the right one of several texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.data.record import Record, invalid
from glassformer.metrics.classification import accuracy
from glassformer.model import Model
from glassformer.train.batches import collate
from glassformer.train.objectives.objective import TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.rows import Example
from glassformer.train.objectives.sequence_level import (
    LOW,
    TEXT,
    Answer,
    SequenceLevelObjective,
    TextEncoder,
    head_scores,
)
from glassformer.train.objectives.text_inputs import column, count_tokens, require_head


@objective("multiple-choice")
class MultipleChoice(SequenceLevelObjective):
    """Multiple choice with columns `question` (or `prompt`), `choices` (a list) and `label`.

    The label is the right choice's index from 0, its letter from A, or its text. Each choice is
    read as the second text of a pair after the question; with a column `context`, that is the first
    text, and question and choice are the second.
    """

    pipeline_tag = "multiple-choice"

    columns = ("question", "prompt", "choices", "label", "context")
    fields: ClassVar = {**TEXT, "lengths": np.int32, "label": np.int32}

    def __init__(
        self, model: Model, *, max_length: int | None = None, head: str = "choose"
    ) -> None:
        super().__init__()
        require_head(model, head, "multiple-choice", "a class such as BertForMultipleChoice")
        self.texts = TextEncoder(model, max_length, self.tally)
        self.head = head
        self.weights = {head: 1.0}

    def prepare(self, record: Record) -> Iterable[Example]:
        prompt = record["prompt"] if "prompt" in record else column(record, "question")
        choices = list(column(record, "choices"))
        context = record.get("context")
        pairs = [
            (prompt, choice) if context is None else (context, f"{prompt} {choice}")
            for choice in choices
        ]
        examples = [self.texts.example(record, *pair) for pair in pairs]
        right = number_of(column(record, "label"), choices, record)
        yield {
            **{key: np.concatenate([choice[key] for choice in examples]) for key in TEXT},
            "lengths": np.array([len(choice["tokens"]) for choice in examples], dtype=np.int32),
            "label": np.array([right], dtype=np.int32),
        }

    def set_row_lengths(
        self, lengths: Mapping[str, tuple[int, ...]], means: Mapping[str, float]
    ) -> None:
        """Sets nothing, because a stored field holds all choices of an example."""

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        """Returns a batch of [example, choice, slot].

        If an example has fewer choices, its first one is repeated as padding.
        """
        most = max(len(example["lengths"]) for example in examples)
        choices: list[Example] = []
        for example in examples:
            ends = np.cumsum(example["lengths"])[:-1]
            own = [
                dict(zip(TEXT, parts, strict=True))
                for parts in zip(*(np.split(example[key], ends) for key in TEXT), strict=True)
            ]
            choices += own + own[:1] * (most - len(own))
        read = self.texts.inputs(choices, self.slots(choices, self.texts.length))
        inputs = {key: value.view(len(examples), most, -1) for key, value in read.items()}
        counts = torch.tensor([len(example["lengths"]) for example in examples])
        targets = {
            "label": collate.column(examples, "label"),
            "real": torch.arange(most) < counts[:, None],
        }
        return TrainingBatch(
            inputs, targets, {self.head: float(len(examples))}, count_tokens(examples)
        )

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        loss = F.cross_entropy(self._scores(model, batch), batch.targets["label"], reduction="sum")
        return {self.head: loss}

    def class_scores(self, scores: Tensor, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
        rows = scores.masked_fill(~batch.targets["real"], LOW)
        return rows, scores.new_ones(len(rows))

    def _scores(self, model: nn.Module, batch: TrainingBatch) -> Tensor:
        return self.class_scores(head_scores(model, batch, self.head), batch)[0]

    def answers(self, model: nn.Module, batch: TrainingBatch) -> list[Answer]:
        found = self._scores(model, batch).argmax(-1).tolist()
        return list(zip(found, batch.targets["label"].tolist(), strict=True))

    def score(self, answers: Sequence[Answer]) -> dict[str, float]:
        found, right = zip(*answers, strict=True)
        return {"accuracy": accuracy(found, right)}


def number_of(label: Any, choices: Sequence[str], record: Record) -> int:
    """Returns the index of the right choice from its index, letter or text."""
    if label in choices:
        return choices.index(label)
    word = str(label).strip()
    number = int(word) if word.isdecimal() else -1
    if len(word) == 1 and word.isalpha():
        number = ord(word.upper()) - ord("A")
    if not 0 <= number < len(choices):
        raise invalid(
            record,
            f"the label is {label!r:.40}, and not one of {len(choices)} choices",
            "the right one's number from 0, its letter from A, or its text",
        )
    return number
