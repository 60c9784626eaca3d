"""Fills gaps with an encoder-decoder (T5, BART), which generates the missing text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from glassformer.errors import GlassformerError, InputError, UnsupportedError
from glassformer.generate.config import samples
from glassformer.generate.infilling import GAP, filler_of, infill
from glassformer.generate.result import GenerationOutput
from glassformer.tasks.fill_types import Filled, GapFilling
from glassformer.tasks.heads import purpose
from glassformer.tasks.model_protocol import TaskModel
from glassformer.text.unknown import warned


class Seq2SeqFiller:
    """Fills gaps with an encoder-decoder; the most probable filling comes first."""

    def __init__(self, model: TaskModel, top: int, beam: int, options: dict[str, Any]) -> None:
        self.model, self.top = model, top
        try:
            filler_of(model.generator)
        except GlassformerError as error:
            message = f"{error} {model.architecture} is {purpose(model)}."
            raise UnsupportedError(message) from None
        usual = {} if samples(options) else {"num_beams": beam}
        self.options = {**usual, "num_return_sequences": top, **options}

    def __call__(self, texts: Iterable[str]) -> Iterator[Filled | GlassformerError]:
        """Yields results in order; a text that cannot be read yields an error in its place."""
        for text in texts:
            try:
                yield self.fill_text(text)
            except GlassformerError as error:
                yield error

    def fill_text(self, text: str) -> Filled:
        if not isinstance(text, str):
            raise InputError(f"A text must be a str, not {type(text).__name__}.")
        best = infill(self.model, text, **self.options)
        found = tuple(map(_filling, (best, *best.alternatives)))
        unknown = 0.0
        if self.model.tokenizer is not None:
            unknown = warned(self.model.tokenizer.unknown_ratio(re.sub(GAP, " ", text)))
        return Filled(found[0].text, (), found, unknown)


def _filling(output: GenerationOutput) -> GapFilling:
    return GapFilling(output.text, tuple(output.spans or ()), math.exp(math.fsum(output.logprobs)))
