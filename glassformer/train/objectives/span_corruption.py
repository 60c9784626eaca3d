"""Span corruption (Raffel et al., 2019).

Spans of a text are each replaced by a sentinel, and the text that each sentinel stands for is
predicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.data.record import Record
from glassformer.errors import ConfigError
from glassformer.model import Model
from glassformer.train.fused_cross_entropy import token_loss
from glassformer.train.objectives.objective import Objective, TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import Example, Lengths, RaggedColumn, Rows, counted, framed
from glassformer.train.objectives.seq2seq_inputs import Start, end_of, seq2seq_batch
from glassformer.train.objectives.text_inputs import (
    TextFrame,
    length_of,
    require_head,
    text_of,
    tokenizer_of,
)
from glassformer.train.objectives.usage_example import GENERATE
from glassformer.train.objectives.whole_words import Flags

SENTINEL = "<extra_id_{}>"


@objective("span-corruption")
class SpanCorruption(Objective):
    """Span corruption of a fraction `noise_density` of the tokens, in spans of
    `mean_noise_span_length` tokens on average.

    A row of the stream has so many tokens that `max_length` remain, including sentinels and the end
    token.
    """

    pipeline_tag = "text2text-generation"
    usage = GENERATE

    columns = ("text",)
    fields: ClassVar[Mapping[str, type[np.generic]]] = {"tokens": np.int32}
    batching = "concatenate"

    def __init__(
        self,
        model: Model,
        *,
        max_length: int | None = None,
        noise_density: float = 0.15,
        mean_noise_span_length: float = 3.0,
    ) -> None:
        super().__init__()
        require_head(model, "lm", "span-corruption", "T5ForConditionalGeneration")
        self.start = Start(model)
        self.frame = TextFrame(tokenizer_of(model))
        self.end = end_of(self.frame.tokenizer)
        if not 0 < noise_density < 1 or mean_noise_span_length < 1:
            raise ConfigError(
                f"noise_density = {noise_density} must lie between 0 and 1, and "
                f"mean_noise_span_length = {mean_noise_span_length} must be at least 1."
            )
        self.density, self.mean = noise_density, mean_noise_span_length
        max_length = length_of(model, max_length)
        self.beyond = row_length(max_length, noise_density, mean_noise_span_length) - max_length
        self.sentinels = sentinels_of(self.frame)
        row = max_length + self.beyond
        noise, spans = noise_sizes(row, noise_density, mean_noise_span_length)
        # The last span may end before the end of the row, whose text has a sentinel in the target.
        self.sides = {"source": max_length, "tokens": noise + spans + 2}
        if spans > len(self.sentinels):
            raise ConfigError(
                f"Rows of {max_length} tokens have {spans} spans, and the tokenizer has "
                f"{len(self.sentinels)} sentinels ({SENTINEL.format(0)}, ...); lower max_length, "
                "or raise mean_noise_span_length."
            )
        self.weights = {"lm": 1.0}

    def prepare(self, record: Record) -> Iterable[Example]:
        """Tokenizes a text and adds the end token where another text may follow in a row."""
        tokens = self.frame.ids(text_of(record))
        if record.get("ends", True):
            tokens.append(self.end)
        yield {"tokens": np.array(tokens, dtype=np.int32)}

    def vary(self, rows: Rows, draws: RowRandom) -> Rows:
        values, lengths = rows.columns["tokens"]
        kept = np.ones(len(values), dtype=bool)
        last = np.cumsum(lengths) - 1
        kept[last] = values[last] != self.end
        tokens = RaggedColumn(values.astype(np.int64), lengths).where(kept)
        noise = noise_mask(tokens.lengths, self.density, self.mean, draws)
        source, target = (
            framed(marked(tokens, gone, self.sentinels), (), [self.end]) for gone in (noise, ~noise)
        )
        start = self.start.column(target, None)
        return Rows({"source": source, "tokens": target, "start": start})

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        return seq2seq_batch(examples, slots=self.sides if self.few_shapes else None)

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        return {"lm": token_loss(model, batch.inputs, batch.targets["tokens"])}


def sentinels_of(frame: TextFrame) -> NDArray[np.int64]:
    """Returns the ids of the tokenizer's sentinel tokens."""
    names = (SENTINEL.format(number) for number in count())
    found = []
    for name in names:
        if name not in frame.tokenizer:
            break
        found.append(frame.tokenizer.id(name))
    return np.array(found, dtype=np.int64)


def noise_sizes(length: int, density: float, mean: float) -> tuple[int, int]:
    """Returns how many of `length` tokens are removed, and in how many spans."""
    tokens, spans = noise_counts(np.array([length]), density, mean)
    return int(tokens[0]), int(spans[0])


def noise_counts(lengths: Lengths, density: float, mean: float) -> tuple[Lengths, Lengths]:
    """Returns `noise_sizes` of several rows."""
    tokens = np.rint(lengths * density).astype(np.int64)
    tokens = np.minimum(np.maximum(tokens, 1), lengths - 1)
    return tokens, np.maximum(np.rint(tokens / mean).astype(np.int64), 1)


def row_length(length: int, density: float, mean: float) -> int:
    """Returns the longest row that has at most `length` tokens after corruption.

    The length includes the sentinels and the end token.
    """

    def left(row: int) -> int:
        tokens, spans = noise_sizes(row, density, mean)
        return row - tokens + spans + 1

    row = length - 1
    while left(row + 1) <= length:
        row += 1
    return row


def noise_mask(lengths: Lengths, density: float, mean: float, draws: RowRandom) -> Flags:
    """Returns a mask that is True at removed tokens of the joined rows.

    Text and noise alternate, text first, and both are cut uniformly at random. A row of one token
    loses none.
    """
    tokens, spans = noise_counts(lengths, density, mean)
    spans = np.minimum(spans, lengths - tokens)
    sizes = [
        cut(items, spans, draws.child(name))
        for name, items in (("text", lengths - tokens), ("noise", tokens))
    ]
    turns = np.stack(sizes, axis=2)  # [row, span, text or noise]
    noise: Flags = np.repeat(np.arange(turns.size) % 2 == 1, turns.flatten())
    return noise


def cut(items: Lengths, parts: Lengths, draws: RowRandom) -> Lengths:
    """Returns random sizes of the parts of each row, [row, part], none of them empty."""
    slots = np.arange(max(1, int(items.max(initial=1))))
    ends = draws.chosen("cuts", (slots > 0) & (slots < items[:, None]), parts - 1)
    part = ends.cumsum(1) + np.arange(len(items))[:, None] * parts.max(initial=1)
    most = int(parts.max(initial=1))
    sizes = np.bincount(part[slots < items[:, None]], minlength=len(items) * most)
    return sizes.reshape(-1, most)


def marked(tokens: RaggedColumn, gone: Flags, sentinels: NDArray[np.int64]) -> RaggedColumn:
    """Replaces every removed span of each row by a different sentinel."""
    first = gone.copy()
    first[1:] &= ~gone[:-1]
    begins = tokens.starts[tokens.lengths > 0]
    first[begins] = gone[begins]
    numbers = counted(first, tokens.lengths) - 1
    shown = np.where(first, sentinels[np.where(first, numbers, 0)], tokens.values)
    return RaggedColumn(shown, tokens.lengths).where(~gone | first)
