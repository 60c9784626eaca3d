"""What an encoder-decoder learns that writes of what it reads. A source and
a target for every example become a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from glassformer.core.shift import shifted_right
from glassformer.errors import GlassformerError
from glassformer.model import Model
from glassformer.text import Tokenizer
from glassformer.train.data.collate import pad
from glassformer.train.objectives.objective import Example, TrainingBatch
from glassformer.train.objectives.text_inputs import IGNORED, Ids


class Start:
    """What the decoder starts from, as in generation: the language of a text that ends with it
    (mBART), or else the model's own token."""

    def __init__(self, model: Model) -> None:
        if model.spec.encoder is None or model.spec.decoder is None:
            raise GlassformerError(
                f"{model.architecture} has no encoder and decoder, which this objective needs; "
                "choose a class such as T5ForConditionalGeneration or BartForConditionalGeneration."
            )
        special = model.spec.tokens
        order = (special.start, special.bos, special.eos)
        self.usual = next((id for id in order if id is not None), None)

    def of(self, target: Ids, language: int | None) -> Ids:
        """[1]: for a target in this language."""
        if target[-1] == language:
            return target[-1:]
        if self.usual is None:
            raise GlassformerError(
                "The model's config has no decoder_start_token_id, which its decoder starts from; "
                "name one in model.settings."
            )
        return np.array([self.usual])


def end_of(tokenizer: Tokenizer) -> int:
    if "eos" not in tokenizer.special:
        raise GlassformerError("The tokenizer has no end token, which a written text needs.")
    return tokenizer.special["eos"]


def rewriting(
    examples: Sequence[Example], part: str = "lm", slots: Mapping[str, int] | None = None
) -> TrainingBatch:
    """The encoder reads `source`; the decoder is one token behind `tokens`, from `start` on. Behind
    a target is nothing that its tokens see, so the decoder needs no mask. With `slots` each side
    has so many, and the source always a mask."""
    sides = slots or {}
    source, source_mask = pad(examples, "source", length=sides.get("source"))
    target, real = pad(examples, "tokens", length=sides.get("tokens"))
    start, _ = pad(examples, "start")
    inputs = {"tokens": shifted_right(target, real, start), "source": source}
    if slots or not bool(source_mask.all()):
        inputs["source_mask"] = source_mask
    targets = {"tokens": target.masked_fill(~real, IGNORED)}
    return TrainingBatch(
        inputs, targets, {part: float(real.sum())}, int(source_mask.sum() + real.sum())
    )
