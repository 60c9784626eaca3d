"""Infilling of gaps in a text with an encoder-decoder.

A gap is marked by `___`, or by the tokenizer's own mark. If the tokenizer has sentinels (T5), each
gap gets its own sentinel and the model writes the text of each; if it has a mask token (BART), the
model writes the whole text again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, Unpack

from glassformer.core import Transformer
from glassformer.errors import InputError, UnsupportedError
from glassformer.generate.options import GenerationOptions
from glassformer.generate.result import GenerationOutput
from glassformer.generate.writer import Generator
from glassformer.text import Tokenizer

GAP = r"_{3,}"


class Filler(Protocol):
    """Interface of the infilling methods."""

    marks: str  # regular expression of the tokenizer's own gap marks

    def source(self, parts: Sequence[str]) -> str:
        """Returns the encoder input for a text in parts with gaps between them."""
        ...

    def stop_token_ids(self, gaps: int) -> list[int]:
        """Returns the tokens at which generation stops."""
        ...

    def filled(self, parts: Sequence[str], output: GenerationOutput) -> GenerationOutput: ...


class Sentinels:
    """Infilling with sentinel tokens (T5)."""

    marks = r"<extra_id_\d+>"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    @staticmethod
    def token(number: int) -> str:
        return f"<extra_id_{number}>"

    def source(self, parts: Sequence[str]) -> str:
        gaps = len(parts) - 1
        if self.token(gaps - 1) not in self.tokenizer:
            raise InputError(f"The tokenizer has no sentinels for {gaps} gaps; leave fewer.")
        marked = (part + self.token(number) for number, part in enumerate(parts[:-1]))
        return "".join(marked) + parts[-1]

    def stop_token_ids(self, gaps: int) -> list[int]:
        following = self.token(gaps)
        return [self.tokenizer.id(following)] if following in self.tokenizer else []

    def filled(self, parts: Sequence[str], output: GenerationOutput) -> GenerationOutput:
        spans = self.spans(output.tokens, len(parts) - 1)
        text = "".join(part + span for part, span in zip(parts, [*spans, ""], strict=True))
        return replace(output, text=text, spans=spans)

    def spans(self, tokens: Sequence[int], gaps: int) -> list[str]:
        """Returns the text after each sentinel; empty where the model omitted it."""
        numbers = {self.tokenizer.id(self.token(i)): i for i in range(gaps)}
        found: dict[int, list[int]] = {i: [] for i in range(gaps)}
        stops = {*self.stop_token_ids(gaps), self.tokenizer.special.get("eos")}
        at: list[int] | None = None
        for token in tokens:
            if token in stops:
                break
            if token in numbers:
                at = found[numbers[token]]
            elif at is not None:
                at.append(token)
        return [self.tokenizer.decode(found[i]).strip() for i in range(gaps)]


class Mask:
    """Infilling with a mask token (BART)."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.token = tokenizer.token(tokenizer.special["mask"])
        self.marks = re.escape(self.token)

    def source(self, parts: Sequence[str]) -> str:
        return self.token.join(parts)

    def stop_token_ids(self, gaps: int) -> list[int]:
        return []

    def filled(self, parts: Sequence[str], output: GenerationOutput) -> GenerationOutput:
        """Sets the spans to the texts between the original parts, if the model has kept these."""
        literal = (r"\s*".join(map(re.escape, part.split())) for part in parts)
        found = re.fullmatch(r"\s*" + r"(.*?)".join(literal) + r"\s*", output.text, re.S)
        spans = None if found is None else [span.strip() for span in found.groups()]
        return replace(output, spans=spans)


def filler_of(writer: Generator) -> Filler:
    """Returns the infilling method for the generator's tokenizer."""
    tokenizer = writer.tokenizer
    if tokenizer is None:
        raise UnsupportedError("Infilling needs a tokenizer, and the model's folder has none.")
    if writer.translates and Sentinels.token(0) in tokenizer:
        return Sentinels(tokenizer)
    if writer.translates and "mask" in tokenizer.special:
        return Mask(tokenizer)
    raise UnsupportedError(
        "Infilling needs an encoder-decoder whose tokenizer has a mask or sentinels (T5, BART)."
    )


class GenerativeModel(Protocol):
    """The part of `glassformer.Model` that infilling uses."""

    @property
    def generator(self) -> Generator: ...


def infill(
    model: GenerativeModel,
    text: str,
    *,
    assistant_model: Transformer | None = None,
    **options: Unpack[GenerationOptions],
) -> GenerationOutput:
    """Fills the gaps of a text by generation.

    Args:
        model: An encoder-decoder whose tokenizer has a mask token or sentinels (T5, BART).
        text: A text whose gaps are marked by `___` or by the tokenizer's own mask or sentinel
            tokens.
        assistant_model: A smaller draft model for speculative decoding.
        **options: Generation options; see `GenerationConfig`.

    Returns:
        An output whose `text` is the whole text and whose `spans` are the generated pieces.

    >>> infill(t5, "The ___ walks in ___ park.").spans
    """
    writer = model.generator
    filler = filler_of(writer)
    if not isinstance(text, str):
        raise InputError(f"Infilling reads one text, not {text!r}.")
    parts = re.split(f"{GAP}|{filler.marks}", text)
    if len(parts) < 2:
        raise InputError("The text has no gap; mark one by ___.")
    config = writer.resolve_config(options)
    config = replace(
        config, eos_token_id=(*config.eos_token_id, *filler.stop_token_ids(len(parts) - 1))
    )
    request = writer.request(0, filler.source(parts), config)
    ((_, output),) = writer.results([request], config, assistant_model)
    best = filler.filled(parts, output)
    best.alternatives = [filler.filled(parts, other) for other in output.alternatives]
    return best
