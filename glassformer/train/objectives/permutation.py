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
from glassformer.train.batches.collate import pad_rows
from glassformer.train.fused_cross_entropy import token_loss
from glassformer.train.objectives.causal import remembered
from glassformer.train.objectives.objective import Example, Objective, TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.text_inputs import (
    IGNORED,
    Ids,
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

    def vary(self, example: Example, rng: np.random.Generator) -> Example:
        tokens = example["tokens"].astype(np.int64)
        special = self.vocabulary.special[tokens]
        predicted = self.choose(tokens, special, rng)
        order = np.full(len(tokens), -1)
        ordered = np.flatnonzero(predicted | special)
        order[ordered] = rng.permutation(len(ordered))
        at = np.flatnonzero(predicted)
        drawn = {"tokens": tokens, "order": order, "at": at, "targets": tokens[at]}
        return {**drawn, "before": example["before"]} if self.before else drawn

    def choose(self, tokens: Ids, special: Flags, rng: np.random.Generator) -> Flags:
        """Returns a mask of the tokens to predict; each window of words has one span."""
        starts = self.vocabulary.starts(tokens) & ~special
        count = int(starts.sum())
        if not count:
            return starts
        sizes = 1 + np.searchsorted(self.reached, rng.random(count // self.partial + 1))
        windows = (sizes * self.partial).cumsum() - sizes * self.partial
        first = windows + rng.integers(0, sizes * (self.partial - 1) + 1)
        inside = first + sizes <= count
        first, last = first[inside], (first + sizes)[inside]
        turns = np.bincount(first, minlength=count + 1) - np.bincount(last, minlength=count + 1)
        words: Flags = turns.cumsum()[:-1] > 0
        if not len(first):
            words[rng.integers(count)] = True
        predicted: Flags = ~special & words[starts.cumsum() - 1]
        return predicted

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        inputs = read_inputs(examples)
        if self.segmented:  # so that the segment scores are trained, too
            inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
        inputs["order"], _ = pad_rows([example["order"] for example in examples], -1)
        inputs["at"], _ = pad_rows([example["at"] for example in examples])
        targets, real = pad_rows([example["targets"] for example in examples], IGNORED)
        if any(len(example["before"]) for example in examples if self.before):
            before = [example["before"] for example in examples]
            inputs["before"], inputs["before_mask"] = pad_rows(before, side="left")
        counts = {"lm": float(real.sum())}
        return TrainingBatch(inputs, {"tokens": targets}, counts, count_tokens(examples))

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        inputs = dict(batch.inputs)
        cache = remembered(model, inputs)
        permutation = Permutation.from_order(inputs.pop("order"), inputs.pop("at"))
        predicted = {**inputs, "permutation": permutation, "past_key_values": cache}
        return {"lm": token_loss(model, predicted, batch.targets["tokens"])}
