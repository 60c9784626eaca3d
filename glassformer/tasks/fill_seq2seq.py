"""Fills gaps with an encoder-decoder (T5, BART), which generates the missing text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from glassformer.errors import GlassformerError, UnsupportedError
from glassformer.generate.config import samples
from glassformer.generate.infill import filler_of, infill
from glassformer.generate.result import GenerationOutput
from glassformer.tasks.fill_types import Filled, GapFilling
from glassformer.tasks.model_protocol import TaskModel, purpose


class Seq2SeqFiller:
    """Fills gaps with an encoder-decoder; the most probable filling comes first."""

    def __init__(self, model: TaskModel, top: int, beam: int, knobs: dict[str, Any]) -> None:
        self.model, self.top = model, top
        try:
            filler_of(model.generator)
        except GlassformerError as error:
            said = f"{error} {model.architecture} is {purpose(model)}."
            raise UnsupportedError(said) from None
        usual = {} if samples(knobs) else {"num_beams": beam}
        self.knobs = {**usual, "num_return_sequences": top, **knobs}

    def __call__(self, texts: Iterable[Any]) -> Iterator[Filled | GlassformerError]:
        for text in texts:
            if isinstance(text, str):
                try:
                    yield self.filled(text)
                except GlassformerError as error:
                    yield error
            elif isinstance(text, GlassformerError):
                yield text

    def filled(self, text: str) -> Filled:
        best = infill(self.model.generator, text, self.knobs)
        found = tuple(map(_written, (best, *best.alternatives)))
        return Filled(found[0].text, (), found)


def _written(said: GenerationOutput) -> GapFilling:
    return GapFilling(said.text, tuple(said.spans or ()), math.exp(math.fsum(said.logprobs)))
