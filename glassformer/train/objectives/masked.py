"""Masked language modeling: predicts masked tokens from both sides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from torch import Tensor, nn

from glassformer.data.record import Record
from glassformer.errors import UnsupportedError
from glassformer.model import Model
from glassformer.train.batches.collate import pad
from glassformer.train.fused_cross_entropy import token_loss
from glassformer.train.objectives.masking import MASKS, Masking, Masks
from glassformer.train.objectives.objective import Objective, TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import Example, RaggedColumn, Rows, column_of
from glassformer.train.objectives.text_inputs import (
    IGNORED,
    TextFrame,
    count,
    count_tokens,
    length_of,
    read_inputs,
    require_head,
    target_positions,
    text_of,
    tokenizer_of,
)
from glassformer.train.objectives.usage_example import UsageExample


@objective("masked-lm")
class MaskedLM(Objective):
    """Masked language modeling as in BERT and RoBERTa.

    Texts are split into pieces of at most `max_length` tokens, each with the tokenizer's special
    tokens; see `Masks` for the other options.
    """

    pipeline_tag = "fill-mask"
    usage: ClassVar[UsageExample | None] = UsageExample("fill", ("The ___ is here.",), ".text")

    columns: ClassVar[tuple[str, ...]] = ("text",)
    fields: ClassVar[Mapping[str, type[np.generic]]] = {"tokens": np.int32}
    batching = "pack"
    inputs: tuple[str, ...] = ()  # fields that the network reads beside the tokens

    def __init__(
        self, model: Model, *, max_length: int | None = None, masks: Masks = MASKS
    ) -> None:
        super().__init__()
        require_head(model, "lm", "masked-lm", "a class such as BertForMaskedLM")
        if model.spec.decoder is not None:
            raise UnsupportedError(
                f"{model.architecture} has a decoder, which does not see what stands behind a "
                "token; masks are for encoders such as BertForMaskedLM."
            )
        self.frame = TextFrame(tokenizer_of(model))
        self.length = length_of(model, max_length)
        self.masking = Masking(self.frame.tokenizer, masks)
        self.weights = {"lm": 1.0}

    def prepare(self, record: Record) -> Iterable[Example]:
        return self.frame.pieces(text_of(record), self.length)

    def vary(self, rows: Rows, draws: RowRandom) -> Rows:
        tokens = rows.columns["tokens"]
        shown, targets = self.masking(tokens, draws, rows.columns.get("documents"))
        own = {"tokens": shown, "targets": targets}
        return rows | {name: RaggedColumn(values, tokens.lengths) for name, values in own.items()}

    def slots(self, examples: Sequence[Example]) -> int:
        """Returns the row length: the longest text's, or on a GPU the next of a few lengths."""
        longest = int(column_of(examples, "tokens").lengths.max(initial=0))
        return self.padded_length(longest, self.length)

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        slots = self.slots(examples)
        most = len(examples) * self.masking.most(slots) if self.few_shapes else None
        targets = target_positions(pad(examples, "targets", IGNORED, length=slots)[0], most=most)
        inputs = read_inputs(examples, *self.inputs, slots=slots, every=self.few_shapes)
        return TrainingBatch(inputs, targets, {"lm": count(targets)}, count_tokens(examples))

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        targets = batch.targets
        return {"lm": token_loss(model, batch.inputs, targets["tokens"], at=targets["at"])}
