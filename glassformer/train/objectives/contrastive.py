"""Contrastive learning: embeddings of matching texts become similar, those of others dissimilar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.data.record import Record
from glassformer.errors import ConfigError
from glassformer.metrics.ranking import mean_reciprocal_rank
from glassformer.model import Model
from glassformer.tasks.embed import require_text, states_of
from glassformer.tasks.pooling import Pooling
from glassformer.train.objectives.objective import TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.rows import Example
from glassformer.train.objectives.sequence_level import (
    LOW,
    TEXT,
    Answer,
    SequenceLevelObjective,
    TextEncoder,
)
from glassformer.train.objectives.text_inputs import column, count_tokens
from glassformer.train.objectives.usage_example import UsageExample

PART = "contrast"
SAME = 1e-6  # cosines this close belong to the same text, read in different batches


@objective("contrastive")
class Contrastive(SequenceLevelObjective):
    """Contrastive learning with columns `text`, `positive` and optionally `negative`.

    A negative is a text that is similar but does not match, or a list of such texts. The loss is
    the cross-entropy of finding a text's positive among all positives and negatives of the batch,
    by cosine divided by temperature (InfoNCE; van den Oord et al., 2018); with `symmetric`, also of
    finding a positive's text, and the mean of both counts.

    Texts that occur twice in a batch are not negatives of each other. A batch is one micro-batch of
    one process: more processes or `train.gradient_accumulation_steps` add no negatives. `pooling`
    is saved with the model and defines how `embed` computes its vectors, which have length 1.
    """

    usage = UsageExample("embed", ("A dog barks.",), ".shape")

    columns = ("text", "positive", "negative")
    fields: ClassVar = {**TEXT, "lengths": np.int32}

    def __init__(
        self,
        model: Model,
        *,
        pooling: str = "mean",
        temperature: float = 0.05,
        symmetric: bool = False,
        max_length: int | None = None,
    ) -> None:
        super().__init__()
        if temperature <= 0:
            raise ConfigError(f"The temperature must be above 0, not {temperature}.")
        require_text(model)
        self.texts = TextEncoder(model, max_length, self.tally)
        self.temperature, self.symmetric = temperature, symmetric
        self.pooling = Pooling(modes=(pooling,), normalize=True, length=max_length)
        self.weights = {PART: 1.0}
        model.pooling = self.pooling

    def lookahead_tokenize(self, records: Sequence[Record]) -> None:
        self.texts.ahead.read(text for record in records for text in _texts(record))

    def prepare(self, record: Record) -> Iterable[Example]:
        named = (column(record, "text"), column(record, "positive"), *_texts(record)[2:])
        texts = [self.texts.example(record, text) for text in named]
        yield {
            **{key: np.concatenate([text[key] for text in texts]) for key in TEXT},
            "lengths": np.array([len(text["tokens"]) for text in texts], dtype=np.int32),
        }

    def set_row_lengths(
        self, lengths: Mapping[str, tuple[int, ...]], means: Mapping[str, float]
    ) -> None:
        """Sets nothing, because a stored field holds several texts."""

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        """Returns a batch of [text, slot]: the texts, then their positives, then all negatives."""
        split = [_split(example) for example in examples]
        anchors, wanted = ([row[i] for row in split] for i in (0, 1))
        against = [negative for row in split for negative in row[2:]]
        found = [*wanted, *against]
        targets = {"same": _same(anchors, wanted, found), "back": _same(wanted, anchors, anchors)}
        counts = {PART: float(len(examples))}
        texts = [*anchors, *found]
        inputs = self.texts.inputs(texts, self.slots(texts, self.texts.length))
        return TrainingBatch(inputs, targets, counts, count_tokens(examples))

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        anchors, found = self.vectors(model, batch)
        loss = self.loss(anchors, found, batch.targets["same"])
        if self.symmetric:
            back = self.loss(found[: len(anchors)], anchors, batch.targets["back"])
            loss = (loss + back) / 2
        return {PART: loss}

    def vectors(self, model: nn.Module, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
        """Returns vectors of [text, width] and [candidate, width].

        The first candidates are the texts' own positives.
        """
        states = states_of(model, **batch.inputs)  # type: ignore[arg-type]  # perhaps wrapped
        vectors = self.pooling(states, batch.inputs["attention_mask"])
        count = len(batch.targets["same"])
        return vectors[:count], vectors[count:]

    def loss(self, anchors: Tensor, found: Tensor, same: Tensor) -> Tensor:
        with torch.autocast(
            anchors.device.type, enabled=False
        ):  # half precision is too coarse here
            cosines = anchors @ found.T
        scores = (cosines / self.temperature).masked_fill(same, LOW)
        right = torch.arange(len(anchors), device=anchors.device)
        return F.cross_entropy(scores, right, reduction="sum")

    def answers(self, model: nn.Module, batch: TrainingBatch) -> list[Answer]:
        anchors, found = (x.float().cpu().numpy() for x in self.vectors(model, batch))
        return list(zip(anchors, found[: len(anchors)], strict=True))

    def score(self, answers: Sequence[Answer]) -> dict[str, float]:
        """Returns how often a text's positive is the nearest, and the mean reciprocal rank.

        The candidates are the positives of all evaluated texts.
        """
        anchors, found = (np.stack(side) for side in zip(*answers, strict=True))
        ranks = ranks_of(anchors, found)
        return {"accuracy": float((ranks == 1).mean()), "mrr": mean_reciprocal_rank(ranks)}


def ranks_of(anchors: NDArray[Any], found: NDArray[Any], block: int = 1024) -> NDArray[np.int64]:
    """Returns the rank, from 1, of each text's positive among all positives by cosine, [text]."""
    ranks = []
    for start in range(0, len(anchors), block):
        cosines = anchors[start : start + block] @ found.T
        own = cosines[np.arange(len(cosines)), start + np.arange(len(cosines))]
        ranks.append(1 + (cosines > own[:, None] + SAME).sum(-1))
    return np.concatenate(ranks)


def _texts(record: Record) -> list[Any]:
    """Returns a text, its positive and its negatives."""
    against = record.get("negative") or []
    against = [against] if isinstance(against, str) else list(against)
    return [record.get("text"), record.get("positive"), *against]


def _split(example: Example) -> list[Example]:
    ends = np.cumsum(example["lengths"])[:-1]
    parts = zip(*(np.split(example[key], ends) for key in TEXT), strict=True)
    return [dict(zip(TEXT, part, strict=True)) for part in parts]


def _same(anchors: list[Example], wanted: list[Example], found: list[Example]) -> Tensor:
    """Returns a mask of [text, candidate] that is True for duplicates of the text or its positive.

    Duplicates are not negatives. The positive itself, on the diagonal, is False.
    """
    keys = [[one["tokens"].tobytes() for one in side] for side in (anchors, wanted, found)]
    ids = {key: number for number, key in enumerate({key for side in keys for key in side})}
    text, right, candidate = (torch.tensor([ids[key] for key in side]) for side in keys)
    same = (candidate == text[:, None]) | (candidate == right[:, None])
    same.diagonal().fill_(False)
    return same
