"""Train room, objectives: what an encoder-decoder learns that writes of what it reads. A source and
a target for every example become a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.errors import GlassformerError
from glassformer.model import Model
from glassformer.text import Tokenizer
from glassformer.train.data.collate import pad_rows
from glassformer.train.objectives.objective import Batch, Example
from glassformer.train.objectives.tokens import IGNORED


def start_of(model: Model) -> int | None:
    """What the decoder starts from; None where that is the target's own last token (mBART)."""
    if model.spec.encoder is None or model.spec.decoder is None:
        raise GlassformerError(
            f"{model.architecture} has no encoder and decoder, which this objective needs; choose "
            "a class such as T5ForConditionalGeneration or BartForConditionalGeneration."
        )
    return model.spec.tokens.start


def end_of(tokenizer: Tokenizer) -> int:
    if "eos" not in tokenizer.special:
        raise GlassformerError("The tokenizer has no end token, which a written text needs.")
    return tokenizer.special["eos"]


def rewriting(examples: Sequence[Example], start: int | None) -> Batch:
    """The encoder reads `source`; the decoder is one token behind `target`."""
    source, source_mask = pad_rows([example["source"] for example in examples])
    targets, real = pad_rows([example["target"] for example in examples], IGNORED)
    behind = [
        np.concatenate(([row[-1] if start is None else start], row[:-1]))
        for row in (example["target"] for example in examples)
    ]
    tokens, mask = pad_rows(behind)
    inputs = {"tokens": tokens, "source": source}
    if not bool(mask.all()):
        inputs["mask"] = mask
    if not bool(source_mask.all()):
        inputs["source_mask"] = source_mask
    counts = {"lm": float(real.sum())}
    return Batch(inputs, {"tokens": targets}, counts, int(source_mask.sum() + real.sum()))
