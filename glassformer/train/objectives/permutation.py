"""Permutation language modeling (Yang et al., 2019).

A text is read in a random order, and the last tokens of that order are predicted one after the
other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.core import Permutation
from glassformer.data.record import Record
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.model import Model
from glassformer.train.batches.collate import pad
from glassformer.train.fused_cross_entropy import token_loss
from glassformer.train.objectives.causal import remembered
from glassformer.train.objectives.objective import Objective, TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import (
    Example,
    Lengths,
    RaggedColumn,
    Rows,
    column_of,
    matrix,
    slot_mask,
    sums,
)
from glassformer.train.objectives.text_inputs import (
    IGNORED,
    TextFrame,
    count_tokens,
    length_of,
    read_inputs,
    require_head,
    text_of,
    tokenizer_of,
)
from glassformer.train.objectives.usage_example import GENERATE
from glassformer.train.objectives.whole_words import Flags, Vocabulary


@objective("permutation-lm")
class PermutationLM(Objective):
    """XLNet's permutation language modeling.

    One word in `partial_prediction` is predicted, in spans of 1 to `max_span_length` words (a span
    of n words is drawn with a weight of 1/n), each at a random place in a window that is
    `partial_prediction` times as long. All other words are visible to all; special tokens take part
    in the order, and are never predicted.

    With `memory_length`, that many tokens before the row are read first, as in causal-lm.
    """

    pipeline_tag = "text-generation"
    usage = GENERATE

    columns = ("text",)
    fields: ClassVar[Mapping[str, type[np.generic]]] = {"tokens": np.int32}

    def __init__(
        self,
        model: Model,
        *,
        max_length: int | None = None,
        partial_prediction: int = 6,
        max_span_length: int = 5,
        memory_length: int = 0,
    ) -> None:
        super().__init__()
        require_head(model, "lm", "permutation-lm", "XLNetLMHeadModel")
        if not model.spec.last_stack.embed.has_query_stream:
            raise UnsupportedError(
                f"{model.architecture} has no stream of queries, which permutation-lm needs; "
                "choose XLNetLMHeadModel, or another objective."
            )
        if partial_prediction < 1 or max_span_length < 1:
            raise ConfigError(
                f"partial_prediction = {partial_prediction} and max_span_length = "
                f"{max_span_length} must be at least 1."
            )
        self.frame = TextFrame(tokenizer_of(model))
        self.vocabulary = Vocabulary(self.frame.tokenizer)
        self.length = length_of(model, max_length)
        self.segmented = model.spec.last_stack.scores_segments
        self.partial = partial_prediction
        weights = 1 / np.arange(1, max_span_length + 1)
        self.reached = weights.cumsum() / weights.sum()  # cumulative probability of span lengths
        self.before = memory_length
        self.batching = "concatenate" if memory_length else "pad"
        self.weights = {"lm": 1.0}

    def prepare(self, record: Record) -> Iterable[Example]:
        return self.frame.pieces(text_of(record), self.length)

    def vary(self, rows: Rows, draws: RowRandom) -> Rows:
        tokens = rows.columns["tokens"]
        starts = self.vocabulary.starts(tokens)
        special = self.vocabulary.special[tokens.values]
        words = starts & ~special
        chosen = self.choose(sums(words, tokens.lengths), draws)
        word = np.cumsum(words) - 1  # over all rows
        predicted = ~special & np.append(chosen, False)[word]
        ordered = predicted | special
        counts = sums(ordered, tokens.lengths)
        scores = matrix(RaggedColumn(draws.uniform("order", counts), counts), 2.0)
        ranks = scores.argsort(1).argsort(1)[slot_mask(counts, scores.shape[1])]
        order = np.full(len(ordered), -1)
        order[ordered] = ranks
        own = RaggedColumn(order, tokens.lengths)
        at = RaggedColumn(tokens.places, tokens.lengths).where(predicted)
        drawn = {"tokens": tokens, "order": own, "at": at, "targets": tokens.where(predicted)}
        return Rows({"before": rows.columns["before"], **drawn} if self.before else drawn)

    def choose(self, counts: Lengths, draws: RowRandom) -> Flags:
        """Returns a mask of the words to predict, joined; each window of words has one span.

        `counts` is the number of words of each row.
        """
        most = int(counts.max(initial=0))
        windows = draws.grid("sizes", most // self.partial + 1)
        sizes = 1 + np.searchsorted(self.reached, windows)  # [row, window]
        starts = (sizes * self.partial).cumsum(1) - sizes * self.partial
        free = sizes * (self.partial - 1) + 1
        first = starts + (draws.grid("places", sizes.shape[1]) * free).astype(np.int64)
        inside = first + sizes <= counts[:, None]
        row = np.nonzero(inside)[0] * (most + 1)
        turns = np.bincount(row + first[inside], minlength=len(counts) * (most + 1))
        turns -= np.bincount(row + (first + sizes)[inside], minlength=len(turns))
        chosen = turns.reshape(-1, most + 1).cumsum(1) > 0
        none = np.flatnonzero(~inside.any(1) & (counts > 0))
        chosen[none, draws.take(none).below("one", counts[none])] = True
        found: Flags = chosen[slot_mask(counts, most + 1)]
        return found

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        longest = int(column_of(examples, "tokens").lengths.max())
        slots = self.padded_length(longest, self.length)
        inputs = read_inputs(examples, slots=slots, every=self.few_shapes)
        if self.segmented:  # so that the segment scores are trained, too
            inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
        inputs["order"], _ = pad(examples, "order", -1, length=slots)
        predicted = int(column_of(examples, "at").lengths.max())
        if self.few_shapes:
            predicted = slots // 2 if predicted <= slots // 2 else slots
        inputs["at"], _ = pad(examples, "at", length=predicted)
        targets, real = pad(examples, "targets", IGNORED, length=predicted)
        if self.before and column_of(examples, "before").lengths.any():
            inputs["before"], inputs["before_mask"] = pad(examples, "before", side="left")
        counts = {"lm": float(real.sum())}
        return TrainingBatch(inputs, {"tokens": targets}, counts, count_tokens(examples))

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        inputs = dict(batch.inputs)
        cache = remembered(model, inputs)
        permutation = Permutation.from_order(inputs.pop("order"), inputs.pop("at"))
        predicted = {**inputs, "permutation": permutation, "past_key_values": cache}
        return {"lm": token_loss(model, predicted, batch.targets["tokens"])}
