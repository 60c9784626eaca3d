"""Batches of encoder-decoder objectives with a source and a target per example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from glassformer.core.input_rules import shifted_right
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.model import Model
from glassformer.text import Tokenizer
from glassformer.train.batches.collate import pad
from glassformer.train.objectives.objective import TrainingBatch
from glassformer.train.objectives.rows import Example, RaggedColumn
from glassformer.train.objectives.text_inputs import IGNORED, Ids


class Start:
    """The decoder's start token, as in generation.

    It is the language of a text that ends with its language (mBART), or else the model's start
    token.
    """

    def __init__(self, model: Model) -> None:
        if model.spec.encoder is None or model.spec.decoder is None:
            raise UnsupportedError(
                f"{model.architecture} has no encoder and decoder, which this objective needs; "
                "choose a class such as T5ForConditionalGeneration or BartForConditionalGeneration."
            )
        special = model.spec.tokens
        order = (special.start, special.bos, special.eos)
        self.default = next((id for id in order if id is not None), None)

    def of(self, target: Ids, language: int | None) -> Ids:
        """Returns the start token of a target in this language, [1]."""
        if target[-1] == language:
            return target[-1:]
        if self.default is None:
            raise ConfigError(
                "The model's config has no decoder_start_token_id, which its decoder starts from; "
                "name one in model.config."
            )
        return np.array([self.default])

    def column(self, targets: RaggedColumn, language: int | None) -> RaggedColumn:
        """Returns the start token of each target, all in this language."""
        last = targets.values[np.cumsum(targets.lengths) - 1]
        found = last == language
        if self.default is None and not found.all():
            self.of(last[~found], language)  # the error
        starts = np.where(found, last, self.default or 0)
        return RaggedColumn(starts.astype(np.int64), np.ones_like(targets.lengths))


def end_of(tokenizer: Tokenizer) -> int:
    if "eos" not in tokenizer.special:
        raise UnsupportedError("The tokenizer has no end token, which a written text needs.")
    return tokenizer.special["eos"]


def seq2seq_batch(
    examples: Sequence[Example], part: str = "lm", slots: Mapping[str, int] | None = None
) -> TrainingBatch:
    """Returns a batch in which the encoder reads `source` and the decoder predicts `tokens`.

    The decoder's input is shifted by one token and begins with `start`. Padding comes after the
    target, where its tokens cannot see it, so the decoder needs no mask.

    Args:
        examples: Examples with `source`, `tokens` and `start`.
        part: Name of the loss part.
        slots: Fixed lengths of both sides; the source then always has a mask.
    """
    sides = slots or {}
    source, encoder_mask = pad(examples, "source", length=sides.get("source"))
    target, real = pad(examples, "tokens", length=sides.get("tokens"))
    start, _ = pad(examples, "start")
    inputs = {"input_ids": source, "decoder_input_ids": shifted_right(target, real, start)}
    if slots or not bool(encoder_mask.all()):
        inputs["attention_mask"] = encoder_mask
    targets = {"tokens": target.masked_fill(~real, IGNORED)}
    return TrainingBatch(
        inputs, targets, {part: float(real.sum())}, int(encoder_mask.sum() + real.sum())
    )
