"""Pairs of segments with masked tokens.

The second task is whether the second segment follows the first (BERT), or which comes first
(ALBERT).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple
from zlib import crc32

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.data.record import Record, invalid
from glassformer.errors import UnsupportedError
from glassformer.model import Model
from glassformer.text import Tokenizer
from glassformer.text.encoding import split_capacity
from glassformer.train.batches.collate import pad
from glassformer.train.fused_cross_entropy import head_loss, head_of
from glassformer.train.objectives.masking import MASKS, Masking, Masks
from glassformer.train.objectives.objective import Objective, TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.row_lengths import even
from glassformer.train.objectives.row_random import Flags, RowRandom
from glassformer.train.objectives.rows import (
    Example,
    RaggedColumn,
    Rows,
    column_of,
    concatenate,
    framed,
    sliced,
    sums,
)
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


class Segments(NamedTuple):
    """Slices of an array, one per row."""

    values: Ids
    starts: Ids
    lengths: Ids


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

    def vary(self, rows: Rows, draws: RowRandom) -> Rows:
        tokens = rows.columns["tokens"]
        cuts = sentence_start(rows, "", 1, draws.child("cut"))
        first = Segments(tokens.values, tokens.starts, cuts)
        second = Segments(tokens.values, tokens.starts + cuts, tokens.lengths - cuts)
        first, second, turned = self.paired(rows, first, second, draws)
        short = draws.uniform("short") < self.short
        drawn = 2 + draws.below("capacity", self.capacity - 1)
        capacities = np.where(short, drawn, self.capacity)
        row, segments = self.framed(*shortened(first, second, capacities, draws))
        shown, targets = self.masking(row, draws)
        own = {"tokens": shown, "targets": targets, "segments": segments}
        columns = {name: RaggedColumn(values, row.lengths) for name, values in own.items()}
        return Rows(columns | {"turned": RaggedColumn(turned, np.ones_like(row.lengths))})

    def paired(
        self, rows: Rows, first: Segments, second: Segments, draws: RowRandom
    ) -> tuple[Segments, Segments, Flags]:
        """Returns the two segments of each row, and whether they differ from the text."""
        raise NotImplementedError

    def framed(self, first: RaggedColumn, second: RaggedColumn) -> tuple[RaggedColumn, Ids]:
        """Adds special tokens as the tokenizer does, and returns the segment of every token.

        Those between belong to the first segment.
        """
        before, between, behind = self.around
        head, tail = framed(first, before, between), framed(second, (), behind)
        sizes = np.stack((head.lengths, tail.lengths), axis=1).flatten()
        return concatenate([head, tail]), np.repeat(np.arange(len(sizes)) % 2, sizes)

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        longest = int(column_of(examples, "tokens").lengths.max())
        slots = even(longest, self.length) if self.few_shapes else longest
        most = len(examples) * self.masking.most(slots) if self.few_shapes else None
        targets = target_positions(pad(examples, "targets", IGNORED, length=slots)[0], most=most)
        turned = column_of(examples, "turned").values
        targets["turned"] = torch.from_numpy(turned.astype(np.int64))
        counts = {"lm": count(targets), self.head: float(len(examples))}
        segments = ["segments"] if self.segmented else []
        return TrainingBatch(
            read_inputs(examples, *segments, slots=slots, every=self.few_shapes),
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
        self, rows: Rows, first: Segments, second: Segments, draws: RowRandom
    ) -> tuple[Segments, Segments, Flags]:
        elsewhere = rows.columns["other.0.tokens"]
        starts = sentence_start(rows, "other.0.", 0, draws.child("elsewhere"))
        documents = (rows.columns[f"{name}document"].values for name in ("", "other.0."))
        turned = (draws.uniform("turned") >= 0.5) & (next(documents) != next(documents))
        values = np.concatenate((second.values, elsewhere.values))
        begin = np.where(turned, len(second.values) + elsewhere.starts + starts, second.starts)
        lengths = np.where(turned, elsewhere.lengths - starts, second.lengths)
        return first, Segments(values, begin, lengths), turned


@objective("sentence-order")
class SentenceOrder(SegmentPairs):
    """Sentence-order prediction: half of the pairs are swapped (Lan et al., 2019)."""

    pipeline_tag = "fill-mask"

    def paired(
        self, rows: Rows, first: Segments, second: Segments, draws: RowRandom
    ) -> tuple[Segments, Segments, Flags]:
        turned = draws.uniform("turned") >= 0.5
        sides = ((first, second), (second, first))
        swapped = [
            Segments(
                first.values,
                np.where(turned, then.starts, now.starts),
                np.where(turned, then.lengths, now.lengths),
            )
            for now, then in sides
        ]
        return swapped[0], swapped[1], turned


def sentence_start(rows: Rows, prefix: str, least: int, draws: RowRandom) -> Ids:
    """Returns where a random sentence of each row begins; `least` is the first one that may be."""
    flags, lengths = rows.columns[f"{prefix}starts"]
    counts = sums(flags, lengths)
    places = RaggedColumn(RaggedColumn(np.arange(len(flags)), lengths).places[flags], counts)
    chosen = least + draws.below("sentence", counts - least)
    found: Ids = places.values[places.starts + chosen]
    return found


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


def shortened(
    first: Segments, second: Segments, capacities: Ids, draws: RowRandom
) -> tuple[RaggedColumn, RaggedColumn]:
    """Shortens the longer segment of each row, at its beginning or its end at random."""
    sizes = np.stack((first.lengths, second.lengths))
    over = sizes.sum(0) > capacities
    for row in np.flatnonzero(over).tolist():
        one, other = sizes[:, row].tolist()
        sizes[:, row] = split_capacity(one, other, int(capacities[row]))
    segments = []
    for name, segment, kept in zip(("first", "second"), (first, second), sizes, strict=True):
        gone = segment.lengths - kept
        coins = draws.uniform(name, gone) < 0.5  # a token is cut from the front or from the end
        front = sums(coins, gone)
        segments.append(sliced(segment.values, segment.starts + front, kept))
    return segments[0], segments[1]
