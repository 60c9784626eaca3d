"""Shared functions of objectives on whole texts: inputs, predictions and metrics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from glassformer.data.record import Record, invalid
from glassformer.model import Model
from glassformer.text.prefetch import PrefetchEncoder
from glassformer.train.batches.collate import pad
from glassformer.train.fused_cross_entropy import exact, features, head_loss, head_of, head_output
from glassformer.train.objectives.objective import Objective, TrainingBatch
from glassformer.train.objectives.rows import Example, column_of
from glassformer.train.objectives.tally import Tally
from glassformer.train.objectives.text_inputs import checked, column, length_of, tokenizer_of

TEXT: dict[str, type[np.generic]] = {
    "tokens": np.int32,
    "segments": np.uint8,
}  # the stored fields of a text
LOW = -1e9  # a score that cannot win; finite, because teacher and student scores are subtracted
Answer = tuple[Any, Any]  # the prediction, and what is right


class SequenceLevelObjective(Objective):
    """An objective with metrics of its own in addition to the loss."""

    @abstractmethod
    def answers(self, model: nn.Module, batch: TrainingBatch) -> list[Answer]:
        """Returns the prediction for every text, and the right answer."""

    @abstractmethod
    def score(self, answers: Sequence[Answer]) -> dict[str, float]:
        """Returns the metrics of all answers together, by name."""

    def slots(self, examples: Sequence[Example], most: int) -> int:
        """Returns the row length: the longest text's, or on a GPU one of a few lengths."""
        return self.padded_length(int(column_of(examples, "tokens").lengths.max()), most)

    def class_scores(self, scores: Tensor, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
        """Returns the head's scores as [row, class] of competing classes, and loss weights, [row].

        Distillation uses them to replace the right answers by a teacher's.
        """
        return scores, scores.new_ones(len(scores))

    def measure(
        self,
        model: nn.Module,
        batches: Iterable[TrainingBatch],
        gathered: Callable[[list[Answer]], list[list[Answer]]] = lambda own: [own],
    ) -> dict[str, float]:
        """Returns the metrics over batches.

        Args:
            model: The network.
            batches: Batches of this process.
            gathered: Returns the answers of all processes that share a batch, in the rows' order.
        """
        found: list[Answer] = []
        for batch in batches:
            for answers in gathered(self.answers(model, batch)):
                found.extend(answers)
        return self.score(found)


class TextEncoder:
    """Tokenizes texts, or pairs of them, with special tokens and truncated to `length` tokens.

    Texts are counted in `tally`.
    """

    def __init__(self, model: Model, length: int | None, tally: Tally) -> None:
        self.tokenizer = tokenizer_of(model)
        self.ahead = PrefetchEncoder(self.tokenizer)
        self.length, self.tally = length_of(model, length), tally
        stack = model.spec.last_stack
        self.segmented = stack.embed.segments > 1 or stack.scores_segments
        self.pad = model.spec.tokens.pad or 0

    def lookahead_tokenize(self, records: Sequence[Record]) -> None:
        """Tokenizes the columns `text` and, for pairs, `pair` of these records in advance."""
        texts: list[Any] = [(record.get("text"), record.get("pair")) for record in records]
        self.ahead.read(text if pair is None else (text, pair) for text, pair in texts)

    def example(self, record: Record, text: Any, pair: Any = None) -> Example:
        """Returns the tokens of a text, or of a pair; raises an error if a text is empty."""
        checked(record, "text", text)
        if pair is not None:
            checked(record, "second text", pair)
        encoded = self.ahead.encode(text, pair, max_length=self.length)
        self.tally.count_text(len(encoded), encoded.cut)
        if not encoded.ids:
            raise invalid(record, "the text has no tokens")
        return {
            "tokens": np.array(encoded.ids, dtype=np.int32),
            "segments": np.array(encoded.segments, dtype=np.uint8),
        }

    def inputs(self, examples: Sequence[Example], slots: int | None = None) -> dict[str, Tensor]:
        """Returns inputs of [text, slot].

        The mask is always given, because heads find the end of a text by it.
        """
        tokens, mask = pad(examples, "tokens", self.pad, length=slots)
        inputs = {"input_ids": tokens, "attention_mask": mask}
        if self.segmented:
            inputs["token_type_ids"], _ = pad(examples, "segments", length=slots)
        return inputs


def text_and_pair(record: Record) -> tuple[Any, Any]:
    return column(record, "text"), record.get("pair")


def head_scores(model: nn.Module, batch: TrainingBatch, head: str) -> Tensor:
    """Returns the output of a head, in float32 or finer."""
    return _cached(batch, head, lambda: exact(head_output(model, batch.inputs, head)))


def sequence_loss(model: nn.Module, batch: TrainingBatch, smoothing: float, head: str) -> Tensor:
    """Returns `token_loss` of the targets of a batch.

    An evaluation computes it with and without smoothing from the same features.
    """
    hidden = _cached(batch, head, lambda: features(model, batch.inputs, head)).flatten(0, -2)
    rows = hidden.index_select(0, batch.targets["at"])
    return head_loss(head_of(model, head), rows, batch.targets["tokens"], smoothing)


def _cached(batch: TrainingBatch, head: str, compute: Callable[[], Tensor]) -> Tensor:
    """Returns `compute()`; in an evaluation it is cached for the loss and the predictions."""
    if batch.head_outputs is None:
        return compute()
    of = head, id(next(iter(batch.inputs.values())))  # each part of a mixture has its own texts
    if of not in batch.head_outputs:
        batch.head_outputs[of] = compute()
    return batch.head_outputs[of]
