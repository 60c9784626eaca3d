"""Tagging: classifies every word of a sentence at its first token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import ClassVar

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.data.record import Record, invalid
from glassformer.errors import ConfigError
from glassformer.metrics.classification import accuracy
from glassformer.metrics.ner import entity_scores, names_entities
from glassformer.model import Model
from glassformer.tasks.task_settings import keep
from glassformer.tasks.windows import encode_words
from glassformer.tasks.words import SPLITS, Split
from glassformer.text import Tokenizer
from glassformer.text.prefetch import PrefetchEncoder
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
)
from glassformer.train.objectives.tally import Tally
from glassformer.train.objectives.text_inputs import (
    IGNORED,
    TextFrame,
    checked,
    column,
    count_tokens,
    require_head,
)
from glassformer.train.objectives.usage_example import UsageExample


@objective("tagging")
class Tagging(SequenceLevelObjective):
    """Tagging with columns `words` and `tags`, two lists of equal length.

    The words are read as one text separated by spaces; a word's tag is predicted only at its first
    token. A sentence of more than `max_length` tokens is split between words. `split` is saved with
    the model: it says how to find such words in a plain text later (see `tasks.words`).
    """

    pipeline_tag = "token-classification"
    usage = UsageExample("tag", ("Ada Lovelace was born in London.",), ".entities")

    columns = ("words", "tags")
    fields: ClassVar = {**TEXT, "tags": np.int32}

    def __init__(
        self,
        model: Model,
        *,
        labels: tuple[str, ...] = (),
        max_length: int | None = None,
        split: Split = "words",
        head: str = "tag",
    ) -> None:
        super().__init__()
        require_head(model, head, "tagging", "a class such as BertForTokenClassification")
        self.texts = TextEncoder(model, max_length, self.tally)
        self.frame = TextFrame(self.texts.tokenizer)
        self.labels = Labels(model, head, labels, self.tally)
        self.head = head
        self.weights = {head: 1.0}
        if max_length is not None:
            keep(model, head, length=max_length)
        if split not in SPLITS:
            raise ConfigError(f"split is {', '.join(SPLITS)}, not {split!r}.")
        keep(model, head, split=split)

    @staticmethod
    def labels_of(record: Record) -> list[str]:
        return [label_of(tag, record) for tag in tags_of(record)]

    def lookahead_tokenize(self, records: Sequence[Record]) -> None:
        words = [record.get("words") for record in records]
        texts = [" ".join(each) for each in words if each and all(isinstance(w, str) for w in each)]
        self.texts.ahead.read(texts, special=False)

    def prepare(self, record: Record) -> Iterable[Example]:
        words, tags = words_of(record), tags_of(record)
        if len(words) != len(tags):
            raise invalid(record, f"there are {len(words)} words and {len(tags)} tags")
        numbers = [self.labels.id(tag, record) for tag in tags]
        ids, first = aligned(self.texts.ahead, words)
        targets = np.full(len(ids), IGNORED, dtype=np.int32)
        for token, number in zip(first, numbers, strict=True):
            if token is not None:
                targets[token] = number
        begins = {token for token in first if token is not None}
        before, behind = ([IGNORED] * len(side) for side in (self.frame.before, self.frame.behind))
        for start, stop in pieces(len(ids), begins, self.frame.capacity(self.texts.length)):
            tokens = np.array(self.frame.add_frame(ids[start:stop]), dtype=np.int32)
            own = np.array([*before, *targets[start:stop], *behind], dtype=np.int32)
            yield {"tokens": tokens, "segments": np.zeros_like(tokens, np.uint8), "tags": own}

    def check(self, tally: Tally) -> None:
        self.labels.check(tally)

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        slots = self.slots(examples, self.texts.length)
        tags, _ = pad(examples, "tags", IGNORED, length=slots)
        counts = {self.head: float(tags.ne(IGNORED).sum())}
        inputs = self.texts.inputs(examples, slots)
        return TrainingBatch(inputs, {"tags": tags}, counts, count_tokens(examples))

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        logits = head_scores(model, batch, self.head).flatten(0, 1)
        tags = batch.targets["tags"].flatten()
        return {self.head: F.cross_entropy(logits, tags, ignore_index=IGNORED, reduction="sum")}

    def class_scores(self, scores: Tensor, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
        return scores.flatten(0, 1), batch.targets["tags"].flatten().ne(IGNORED).to(scores.dtype)

    def answers(self, model: nn.Module, batch: TrainingBatch) -> list[Answer]:
        found = head_scores(model, batch, self.head).argmax(-1).tolist()
        names = self.labels.names
        pairs = [
            [(f, r) for f, r in zip(row, tags, strict=True) if r != IGNORED]
            for row, tags in zip(found, batch.targets["tags"].tolist(), strict=True)
        ]
        return [([names[f] for f, _ in row], [names[r] for _, r in row]) for row in pairs]

    def score(self, answers: Sequence[Answer]) -> dict[str, float]:
        found, right = zip(*answers, strict=True)
        scores = {"accuracy": accuracy([*chain(*found)], [*chain(*right)])}
        if names_entities(self.labels.names):
            scores |= entity_scores(found, right)
        return scores


def words_of(record: Record) -> Sequence[str]:
    """Returns the words of a sentence; raises an error if there are none, or a blank one."""
    words = _listed(record, "words")
    if not words:
        raise invalid(record, "the sentence has no words")
    for word in words:
        checked(record, "word", word)
    return words


def tags_of(record: Record) -> Sequence[str]:
    return _listed(record, "tags")


def _listed(record: Record, name: str) -> Sequence[str]:
    value = column(record, name)
    if not isinstance(value, list | tuple):
        raise invalid(record, f"the {name} are {value!r:.40}, and not a list")
    return value


def aligned(
    tokenizer: Tokenizer | PrefetchEncoder, words: Sequence[str]
) -> tuple[list[int], list[int | None]]:
    """Returns the tokens of a sentence, and the index of the first token of each word.

    The index is None for a word that yields no tokens.
    """
    encoded = encode_words(tokenizer, words)
    first: list[int | None] = [None] * len(words)
    for token, word in enumerate(encoded.words):
        if word is not None and first[word] is None:
            first[word] = token
    return encoded.ids, first


def pieces(length: int, begins: set[int], capacity: int) -> Iterator[tuple[int, int]]:
    """Yields spans of at most `capacity` tokens that end before a word if possible."""
    start = 0
    while length - start > capacity:
        stop = next(
            (i for i in range(start + capacity, start, -1) if i in begins), start + capacity
        )
        yield start, stop
        start = stop
    if start < length:
        yield start, length
