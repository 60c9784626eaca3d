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
from glassformer.train.objectives.objective import Example, Objective, TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.seq2seq_inputs import Start, end_of, rewriting
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
        _, spans = noise_sizes(max_length + self.beyond, noise_density, mean_noise_span_length)
        if spans > len(self.sentinels):
            raise ConfigError(
                f"Rows of {max_length} tokens have {spans} spans, and the tokenizer "
                f"{len(self.sentinels)} sentinels ({SENTINEL.format(0)}, ...); lower length, or "
                "raise mean."
            )
        self.weights = {"lm": 1.0}

    def prepare(self, record: Record) -> Iterable[Example]:
        """Tokenizes a text and adds the end token where another text may follow in a row."""
        tokens = self.frame.ids(text_of(record))
        if record.get("ends", True):
            tokens.append(self.end)
        yield {"tokens": np.array(tokens, dtype=np.int32)}

    def vary(self, example: Example, rng: np.random.Generator) -> Example:
        tokens = example["tokens"].astype(np.int64)
        if tokens[-1] == self.end:
            tokens = tokens[:-1]
        noise = noise_mask(len(tokens), self.density, self.mean, rng)
        source = np.append(marked(tokens, noise, self.sentinels), self.end)
        target = np.append(marked(tokens, ~noise, self.sentinels), self.end)
        return {"source": source, "tokens": target, "start": self.start.of(target, None)}

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        return rewriting(examples)

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
    tokens = min(max(round(length * density), 1), length - 1)
    return tokens, max(round(tokens / mean), 1)


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


def noise_mask(length: int, density: float, mean: float, rng: np.random.Generator) -> Flags:
    """Returns a mask that is True at removed tokens.

    Text and noise alternate, text first, and both are cut uniformly at random.
    """
    if length < 2:
        return np.zeros(length, dtype=bool)
    tokens, spans = noise_sizes(length, density, mean)
    spans = min(spans, length - tokens)
    text, noise = cut(length - tokens, spans, rng), cut(tokens, spans, rng)
    sizes = np.stack((text, noise), axis=1).flatten()
    return np.repeat(np.arange(len(sizes)) % 2 == 1, sizes)


def cut(items: int, parts: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Returns random sizes of `parts` parts, none of them empty."""
    inner = np.sort(rng.permutation(items - 1)[: parts - 1]) + 1
    return np.diff(np.concatenate(([0], inner, [items])))


def marked(
    tokens: NDArray[np.int64], gone: Flags, sentinels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Replaces every removed span by a different sentinel."""
    first = gone & ~np.concatenate(([False], gone[:-1]))
    shown = tokens.copy()
    shown[first] = sentinels[: first.sum()]
    return shown[~gone | first]
