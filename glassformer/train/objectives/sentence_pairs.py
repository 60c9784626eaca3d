"""Pairs of segments with masked tokens.

The second task is whether the second segment follows the first (BERT), or which comes first
(ALBERT).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar
from zlib import crc32

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.data.record import Record, invalid
from glassformer.errors import UnsupportedError
from glassformer.model import Model
from glassformer.text import Tokenizer
from glassformer.text.encoding import shares
from glassformer.train.batches.collate import pad
from glassformer.train.fused_cross_entropy import head_loss, head_of
from glassformer.train.objectives.masking import MASKS, Masking, Masks
from glassformer.train.objectives.objective import Example, Objective, TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.text_inputs import (
    IGNORED,
    Ids,
    TextFrame,
    checked,
    column,
    count,
    count_tokens,
    length_of,
    read_inputs,
    target_positions,
    tokenizer_of,
)

PAIRED = ("next_sentence", "sentence_order")  # the heads that judge two segments


class SegmentPairs(Objective):
    """Base class of objectives on two segments.

    A stored example is a sequence of a document's sentences that fills a row. It is cut in two
    after some sentence: [CLS] first [SEP] second [SEP]; the label 1 means that they are not as in
    the text. A fraction `short_seq_prob` of the pairs (one in ten) is shortened to a random length.
    """

    columns = ("sentences",)
    fields: ClassVar[Mapping[str, type[np.generic]]] = {
        "tokens": np.int32,
        "starts": np.bool_,  # of sentences
        "document": np.int32,  # one number, the same for the same document
    }

    def __init__(
        self,
        model: Model,
        *,
        max_length: int | None = None,
        short_seq_prob: float = 0.1,
        masks: Masks = MASKS,
    ) -> None:
        super().__init__()
        names = [head.name for head in model.spec.heads]
        found = [head for head in model.spec.heads if head.name in PAIRED and head.num_outputs == 2]
        if not found:
            raise UnsupportedError(
                f"{model.architecture} has no head of two outputs that judges pairs; choose a "
                "class such as BertForPreTraining or AlbertForPreTraining."
            )
        self.head = found[0].name
        self.weights = {"lm": 1.0, self.head: 1.0} if "lm" in names else {self.head: 1.0}
        self.frame = TextFrame(tokenizer_of(model))
        self.segmented = bool(model.spec.last_stack.embed.segments)
        self.length, self.short = length_of(model, max_length), short_seq_prob
        self.around = around_pair(self.frame.tokenizer)
        self.capacity = self.frame.capacity(self.length, sum(map(len, self.around)))
        self.masking = Masking(self.frame.tokenizer, masks)

    def prepare(self, record: Record) -> Iterable[Example]:
        """Collects sentences until a row is full; a longer sentence is truncated."""
        texts = column(record, "sentences")
        if not isinstance(texts, list | tuple) or not texts:
            raise invalid(record, f"the sentences are {texts!r:.40}, and not a list of texts")
        sentences = []
        for text in texts:
            ids = self.frame.ids(checked(record, "sentence", text))
            sentences.append(ids[: self.capacity - 1])
            self.tally.count_text(len(sentences[-1]), len(ids) - len(sentences[-1]))
        document = crc32("\n".join(texts).encode()) >> 1
        run: list[list[int]] = []
        for sentence in filter(None, sentences):
            if len(run) > 1 and sum(map(len, run)) + len(sentence) > self.capacity:
                yield _stored(run, document)
                run = []
            run.append(sentence)
        if len(run) > 1:
            yield _stored(run, document)

    def vary(self, example: Example, rng: np.random.Generator) -> Example:
        tokens = example["tokens"].astype(np.int64)
        starts = np.flatnonzero(example["starts"])
        cut = starts[rng.integers(1, len(starts))]
        first, second, turned = self.paired(example, tokens[:cut], tokens[cut:], rng)
        capacity = self.capacity
        if rng.random() < self.short:
            capacity = int(rng.integers(2, capacity + 1))
        first, second = shortened(first, second, capacity, rng)
        row = self.framed(first, second)
        shown, targets = self.masking(row["tokens"], rng)
        return {**row, "tokens": shown, "targets": targets, "turned": np.array([turned])}

    def paired(
        self, example: Example, first: Ids, second: Ids, rng: np.random.Generator
    ) -> tuple[Ids, Ids, bool]:
        """Returns the two segments, and whether they differ from the text."""
        raise NotImplementedError

    def framed(self, first: Ids, second: Ids) -> Example:
        """Adds special tokens as the tokenizer does; those between belong to the first segment."""
        before, between, behind = self.around
        sizes = [len(before) + len(first) + len(between), len(second) + len(behind)]
        return {
            "tokens": np.concatenate((before, first, between, second, behind)).astype(np.int64),
            "segments": np.repeat([0, 1], sizes),
        }

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        targets = target_positions(pad(examples, "targets", IGNORED)[0])
        turned = np.concatenate([example["turned"] for example in examples])
        targets["turned"] = torch.from_numpy(turned.astype(np.int64))
        counts = {"lm": count(targets), self.head: float(len(examples))}
        return TrainingBatch(
            read_inputs(examples, *(["segments"] if self.segmented else [])),
            targets,
            {part: counts[part] for part in self.weights},
            count_tokens(examples),
        )

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        outputs = model(
            **batch.inputs, heads=tuple(self.weights), return_features=True
        ).head_outputs
        pair_head = head_of(model, self.head)
        losses = {self.head: head_loss(pair_head, outputs[self.head], batch.targets["turned"])}
        if "lm" in outputs:
            hidden = outputs["lm"].flatten(0, -2)[batch.targets["at"]]
            losses["lm"] = head_loss(head_of(model, "lm"), hidden, batch.targets["tokens"])
        return losses


@objective("next-sentence")
class NextSentence(SegmentPairs):
    """Next-sentence prediction (Devlin et al., 2018).

    In half of the pairs the second segment is from another document, drawn from all; if that
    happens to be the same document, the pair is left as it is.
    """

    pipeline_tag = "fill-mask"

    others = 1

    def paired(
        self, example: Example, first: Ids, second: Ids, rng: np.random.Generator
    ) -> tuple[Ids, Ids, bool]:
        elsewhere = example["other.0.tokens"].astype(np.int64)
        starts = np.flatnonzero(example["other.0.starts"])
        start = starts[rng.integers(len(starts))]
        same = example["document"][0] == example["other.0.document"][0]
        if rng.random() < 0.5 or same:
            return first, second, False
        return first, elsewhere[start:], True


@objective("sentence-order")
class SentenceOrder(SegmentPairs):
    """Sentence-order prediction: half of the pairs are swapped (Lan et al., 2019)."""

    pipeline_tag = "fill-mask"

    def paired(
        self, example: Example, first: Ids, second: Ids, rng: np.random.Generator
    ) -> tuple[Ids, Ids, bool]:
        return (first, second, False) if rng.random() < 0.5 else (second, first, True)


def _stored(run: list[list[int]], document: int) -> Example:
    starts = np.zeros(sum(map(len, run)), dtype=bool)
    starts[np.cumsum([0, *map(len, run[:-1])])] = True
    return {
        "tokens": np.concatenate(run).astype(np.int32),
        "starts": starts,
        "document": np.array([document], dtype=np.int32),
    }


def around_pair(tokenizer: Tokenizer) -> tuple[list[int], list[int], list[int]]:
    """Returns the special tokens before, between and after two texts."""
    sample = tokenizer.encode("a", "a")
    first, second = ([i for i, s in enumerate(sample.sequence) if s == text] for text in (0, 1))
    ids = sample.ids
    return ids[: first[0]], ids[first[-1] + 1 : second[0]], ids[second[-1] + 1 :]


def shortened(first: Ids, second: Ids, capacity: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """Shortens the longer segment, at its beginning or its end at random."""
    over = len(first) + len(second) - capacity
    if over <= 0:
        return first, second
    kept = shares(len(first), len(second), capacity)
    segments = []
    for segment, size in zip((first, second), kept, strict=True):
        front = int(rng.binomial(len(segment) - size, 0.5))
        segments.append(segment[front : front + size])
    return segments[0], segments[1]
