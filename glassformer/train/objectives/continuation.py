"""Sequence to sequence with a decoder alone: the target continues the source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.data.record import Record
from glassformer.errors import GlassformerError, UnsupportedError
from glassformer.metrics.regression import perplexity
from glassformer.model import Model
from glassformer.tasks.rewrite import keep_layout, separator_ids, start_ids
from glassformer.text.prefetch import PrefetchEncoder
from glassformer.train.batches import collate
from glassformer.train.batches.collate import pad
from glassformer.train.objectives.objective import TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.rows import Example
from glassformer.train.objectives.sequence_level import (
    Answer,
    SequenceLevelObjective,
    sequence_loss,
)
from glassformer.train.objectives.text_inputs import (
    IGNORED,
    count,
    length_of,
    require_head,
    source_of,
    target_positions,
    targets_of,
    tokenizer_of,
)
from glassformer.train.objectives.usage_example import GENERATE


@objective("continuation")
class Continuation(SequenceLevelObjective):
    """Continuation with columns `source` and `target`, and optionally `target_language`.

    They may be lists, as in sequence-to-sequence. A row has the tokens of the source, the
    separator, the target and the end token. The loss is over the target and its end.

    The separator is a token or a text; by default the tokenizer's own, or else a line break. With
    `prefix_lm`, every token of the source attends to all of it (a prefix language model). If a row
    is too long, the beginning of its source is cut first. These settings are saved with the model,
    for `translate` and `summarize`.
    """

    pipeline_tag = "text-generation"
    usage = GENERATE

    columns = ("source", "target", "target_language")
    fields: ClassVar = {"tokens": np.int32, "prefix": np.int32}
    beyond = 1

    def __init__(
        self,
        model: Model,
        *,
        separator: str | None = None,
        label_smoothing: float = 0.0,
        prefix_lm: bool = False,
        max_length: int | None = None,
        head: str = "lm",
    ) -> None:
        super().__init__()
        require_head(model, head, "continuation", "a class such as GPT2LMHeadModel")
        if model.spec.decoder is None or model.spec.encoder is not None:
            raise UnsupportedError(
                f"continuation needs a decoder alone, and {model.architecture} is none; choose the "
                "objective sequence-to-sequence, or another class."
            )
        self.tokenizer = tokenizer_of(model)
        self.ahead = PrefetchEncoder(self.tokenizer)
        self.length = length_of(model, max_length) + 1
        self.start = start_ids(self.tokenizer)
        self.separator = separator_ids(self.tokenizer, separator)
        end = self.tokenizer.special.get("eos", model.spec.tokens.eos)
        self.end = [] if end is None else [end]
        self.smoothing, self.prefix_lm, self.head = label_smoothing, prefix_lm, head
        self.weights = {head: 1.0}
        keep_layout(
            model,
            separator=self.separator,
            length=self.length - 1,
            bidirectional_prefix=prefix_lm or None,
            eos_token_id=end,
        )

    def lookahead_tokenize(self, records: Sequence[Record]) -> None:
        texts: list[str] = []
        for record in records:
            with suppress(GlassformerError):  # `prepare` reports the error
                texts += [self.source_of(record), *targets_of(record)]
        self.ahead.read(texts, special=False)

    def source_of(self, record: Record) -> str:
        _, address = self.tokenizer.for_translation(None, record.get("target_language"))
        return address + source_of(record)

    def ids(self, text: str) -> list[int]:
        return self.ahead.encode(text, special=False).ids

    def prepare(self, record: Record) -> Iterable[Example]:
        source = self.ids(self.source_of(record))
        frame = len(self.start) + len(self.separator)
        for text in targets_of(record):
            target = [*self.ids(text), *self.end]
            whole = len(source) + frame + len(target)
            target = target[: self.length - frame]
            read = source[max(0, len(source) + frame + len(target) - self.length) :]
            kept = len(read) + frame + len(target)
            self.tally.count_text(kept, whole - kept)
            before = [*self.start, *read, *self.separator]
            yield {
                "tokens": np.array([*before, *target], dtype=np.int32),
                "prefix": np.array([len(before)], dtype=np.int32),
            }

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        return self._batch(examples, self.slots(examples, self.length))

    def collate_to(self, examples: Sequence[Example], slots: Mapping[str, int]) -> TrainingBatch:
        return self._batch(examples, min(slots["tokens"], self.length))

    def _batch(self, examples: Sequence[Example], slots: int | None) -> TrainingBatch:
        """Returns a batch without a mask: padding comes after a row, where it is not seen."""
        tokens, mask = pad(examples, "tokens", length=slots)
        prefix = collate.column(examples, "prefix")
        inputs = {"input_ids": tokens[:, :-1]}
        if self.prefix_lm:
            inputs["prefix_length"] = prefix
        targets = tokens.masked_fill(~mask, IGNORED)
        places = torch.arange(targets.shape[1])
        targets = targets.masked_fill(places < prefix[:, None], IGNORED)
        found = target_positions(targets[:, 1:], few=self.few_shapes)
        return TrainingBatch(inputs, found, {self.head: count(found)}, int(mask[:, 1:].sum()))

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        return {self.head: sequence_loss(model, batch, self.smoothing, self.head)}

    def answers(self, model: nn.Module, batch: TrainingBatch) -> list[Answer]:
        """Returns the cross-entropy without smoothing, and the number of its tokens."""
        loss = sequence_loss(model, batch, 0.0, self.head)
        return [(float(loss), int(count(batch.targets)))]

    def score(self, answers: Sequence[Answer]) -> dict[str, float]:
        totals = (sum(side) for side in zip(*answers, strict=True))
        return {"perplexity": perplexity(*totals)}
