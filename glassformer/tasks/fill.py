"""Fills gaps in texts.

A gap is marked by `___` or by the tokenizer's mask token. A masked language model gives the
probability of each word in a gap, alone and together with the words in the other gaps; an
encoder-decoder generates the missing text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Unpack, overload

from torch import Tensor

from glassformer.errors import ConfigError, GlassformerError, InputError, UnsupportedError
from glassformer.generate.infilling import GAP
from glassformer.generate.options import GenerationOptions
from glassformer.tasks.batching import (
    apply_to,
    map_batched,
    predict_batched,
)
from glassformer.tasks.fill_masked import Guess, MaskedRow, beam_search, first_guesses, likelihood
from glassformer.tasks.fill_seq2seq import Seq2SeqFiller
from glassformer.tasks.fill_types import FillCandidate, Filled, Gap, GapFilling
from glassformer.tasks.heads import purpose, require_head
from glassformer.tasks.model_protocol import TaskModel, longest, require_tokenizer
from glassformer.tasks.registry import TrainingData, task
from glassformer.tasks.task_cache import cached_task
from glassformer.text import TextEncoding
from glassformer.text.unknown import warned

BEAMS = 8


class FillerOptions(GenerationOptions, total=False):
    """The keyword arguments of `fill`; generation options are for encoder-decoders."""

    top: int
    tokens: int
    targets: Sequence[str] | None


@overload
def fill(model: TaskModel, texts: str, **options: Unpack[FillerOptions]) -> Filled: ...  # type: ignore[overload-overlap]


@overload
def fill(
    model: TaskModel, texts: Sequence[str], **options: Unpack[FillerOptions]
) -> list[Filled]: ...


@overload
def fill(
    model: TaskModel, texts: Iterator[str], **options: Unpack[FillerOptions]
) -> Iterator[Filled]: ...


def fill(
    model: TaskModel,
    texts: str | Sequence[str] | Iterator[str],
    *,
    top: int = 5,
    tokens: int = 1,
    targets: Sequence[str] | None = None,
    num_beams: int | None = None,
    **generation: Any,
) -> Filled | list[Filled] | Iterator[Filled]:
    """Predicts what belongs in the gaps of texts.

    Args:
        model: A masked language model or an encoder-decoder.
        texts: A text with gaps marked by `___`, or a list or iterator of texts.
        top: The number of candidates per gap and of fillings per text.
        tokens: The maximum number of tokens of a gap.
        targets: The words to choose from, with any number of tokens.
        num_beams: The beam width; the default is 8.
        **generation: Generation options, for an encoder-decoder.

    Returns:
        A `Filled`, a list for a list, an iterator for an iterator.

    >>> bert.fill("Paris is the ___ of France.").gaps[0].candidates[0].text
    """
    task = cached_task(
        model, filler, top=top, tokens=tokens, targets=targets, num_beams=num_beams, **generation
    )
    results: Filled | list[Filled] | Iterator[Filled] = apply_to(model, texts, task)
    return results


def filler(
    model: TaskModel,
    *,
    top: int = 5,
    tokens: int = 1,
    targets: Sequence[str] | None = None,
    num_beams: int | None = None,
    **generation: Any,
) -> MaskedFiller | Seq2SeqFiller:
    """Creates a filler for a masked language model or an encoder-decoder.

    Args:
        model: The model.
        top: The number of candidates per gap and of fillings per text.
        tokens: The maximum number of tokens of a gap.
        targets: The words to choose from, with any number of tokens.
        num_beams: The beam width; the default is 8.
    """
    beam = BEAMS if num_beams is None else num_beams
    for name, value in (("top", top), ("tokens", tokens), ("num_beams", beam)):
        if value < 1:
            raise ConfigError(f"{name} must be 1 or more, not {value}.")
    if model.spec.encoder is not None and model.spec.decoder is not None:
        if targets is not None or tokens != 1:
            raise ConfigError(
                f"{model.architecture} fills gaps with text of any length; `tokens` and `targets` "
                "are for masked language models."
            )
        return Seq2SeqFiller(model, top, max(beam, top), generation)
    if generation:
        raise ConfigError(f"{next(iter(generation))!r} is an option of encoder-decoders only.")
    return MaskedFiller(model, top, tokens, targets, max(beam, top))


@task(
    "fill",
    head="lm",
    objective="masked-lm",
    fits=lambda model: model.spec.decoder is None,
    training=TrainingData(
        columns={"text": ("sentence", "content", "document", "body")},
        evaluation="masked-lm",
        format="text",
    ),
)
class MaskedFiller:
    """Fills gaps with a masked language model."""

    def __init__(
        self, model: TaskModel, top: int, tokens: int, targets: Sequence[str] | None, beam: int
    ) -> None:
        self.head = require_head(model, "lm", "fill")
        self.model, self.top, self.beam = model, top, beam
        self.tokens, self.targets = tokens, targets
        self.tokenizer = require_tokenizer(model)
        if "mask" not in self.tokenizer.special or model.spec.decoder is not None:
            raise UnsupportedError(
                f"fill needs a masked language model, or an encoder-decoder; {model.architecture} "
                f"is {purpose(model)}."
            )
        if targets is not None and not [word for word in targets if word.strip()]:
            raise ConfigError("`targets` is empty; add words, or leave it out.")
        self.mask = self.tokenizer.special["mask"]
        self.sign = self.tokenizer.token(self.mask)
        self.marks = re.compile(f"{GAP}|{re.escape(self.sign)}")
        self.limit = longest(model)

    def __call__(self, texts: Iterable[str]) -> Iterator[Filled | GlassformerError]:
        """Yields results in order; a text that cannot be read yields an error in its place."""
        return map_batched(texts, self._predict)

    def _predict(self, texts: list[str]) -> Iterator[Filled | GlassformerError]:
        encodings = [self.encode(text) for text in texts]
        guesses = predict_batched(self.model, encodings, self._forward)
        for text, encoding, found in zip(texts, encodings, guesses, strict=True):
            if isinstance(encoding, GlassformerError) or isinstance(found, GlassformerError):
                assert isinstance(found, GlassformerError)
                yield found
            else:
                yield self.fill_text(text, encoding, found)

    def _forward(
        self, inputs: dict[str, Tensor], texts: list[TextEncoding]
    ) -> list[list[list[Guess]]]:
        return first_guesses(self.model, inputs, texts, self.mask, self.top, self.banned)

    @property
    def banned(self) -> list[int]:
        """The ids that are no words: special tokens, and ids beyond the tokenizer's vocabulary."""
        words = self.head.num_outputs or 0
        beyond = range(self.tokenizer.size, words)
        return [*(id for id in self.tokenizer.special_ids if id < words), *beyond]

    def encode(self, text: Any) -> TextEncoding | GlassformerError:
        if not isinstance(text, str):
            return InputError(f"A text must be a str, not {type(text).__name__}.")
        parts = self.marks.split(text)
        if len(parts) < 2:
            return InputError("The text has no gap; mark one by ___.")
        try:
            made = self.tokenizer.encode(self.sign.join(parts))
        except GlassformerError as error:
            return error
        if self.limit is not None and len(made) > self.limit:
            return InputError(
                f"The text has {len(made)} tokens and the model reads {self.limit}; shorten it."
            )
        return made

    def fill_text(self, text: str, encoded: TextEncoding, guesses: list[list[Guess]]) -> Filled:
        places = [found.span() for found in self.marks.finditer(text)]
        if self.targets is not None:
            guesses = [self.of_words(text, gap) for gap in range(len(places))]
        elif self.tokens > 1:
            guesses = [self.of_lengths(encoded, gap) for gap in range(len(places))]
        gaps = tuple(
            Gap(*place, tuple(self.candidate(guess) for guess in found))
            for place, found in zip(places, guesses, strict=True)
        )
        together = self.together(encoded, guesses)
        fillings = tuple(self.filling(text, places, encoded, guess) for guess in together)
        unknown = self.tokenizer.unknown_ratio(" ".join(self.marks.split(text)))
        return Filled(fillings[0].text, gaps, fillings, warned(unknown))

    def of_lengths(self, encoded: TextEncoding, gap: int) -> list[Guess]:
        """Returns the best fillings of a gap with one token, two, and so on, by beam search."""
        found: list[Guess] = []
        for count in range(1, self.tokens + 1):
            row, places = self.row(encoded, {gap: count})
            if self.limit is None or len(row.ids) <= self.limit:
                found += beam_search(self.model, row, [places[gap]], self.beam, self.banned)
        return sorted(found, key=lambda guess: -guess.score)[: self.top]

    def of_words(self, text: str, gap: int) -> list[Guess]:
        """Scores every word of the targets in the gap, tokenized in its context."""
        parts = self.marks.split(text)
        before = self.sign.join(parts[: gap + 1])
        behind = self.sign.join(parts[gap + 1 :])
        rows: list[MaskedRow] = []
        places: list[list[int]] = []
        for word in filter(str.strip, self.targets or ()):
            made = self.tokenizer.encode(before + word + behind)
            start, end = len(before), len(before) + len(word)
            own = [
                i
                for i, (first, last) in enumerate(made.offsets)
                if first < end and last > start and not made.special_mask[i]
            ]
            if not own or (self.limit is not None and len(made) > self.limit):
                raise ConfigError(f"{word!r} cannot fill the gap; choose another word.")
            rows.append(MaskedRow(made.ids, made.segments))
            places.append(own)
        found = likelihood(self.model, rows, places, self.mask)
        return sorted(found, key=lambda guess: -guess.score)[: self.top]

    def together(self, encoded: TextEncoding, guesses: list[list[Guess]]) -> list[list[Guess]]:
        """Returns the best joint fillings of all gaps.

        Each gap has the length of its best candidate alone; with `targets`, the best words of each
        gap are combined.
        """
        if len(guesses) == 1:
            return [[guess] for guess in guesses[0]]
        if self.targets is not None:
            return self.among_words(encoded, guesses)
        sizes = {gap: len(found[0].tokens) for gap, found in enumerate(guesses)}
        row, places = self.row(encoded, sizes)
        ordered = [places[gap] for gap in sorted(places)]
        found = beam_search(self.model, row, ordered, self.beam, self.banned)[: self.top]
        return [_split(guess, [*map(len, ordered)]) for guess in found]

    def among_words(self, encoded: TextEncoding, guesses: list[list[Guess]]) -> list[list[Guess]]:
        """Scores combinations of each gap's best words, as many as a beam search keeps."""
        chosen: list[list[Guess]] = [[]]
        for found in guesses:
            grown = [[*before, guess] for before in chosen for guess in found]
            grown.sort(key=lambda several: -sum(guess.logprob for guess in several))
            chosen = grown[: self.beam**2]
        rows, places = [], []
        for several in chosen:
            row, own = self.row(encoded, {gap: len(g.tokens) for gap, g in enumerate(several)})
            ids = list(row.ids)
            for gap, guess in enumerate(several):
                for at, token in zip(own[gap], guess.tokens, strict=True):
                    ids[at] = token
            rows.append(MaskedRow(ids, row.segments))
            places.append([at for gap in sorted(own) for at in own[gap]])
        scored = likelihood(self.model, rows, places, self.mask)
        split = [
            _split(guess, [len(one.tokens) for one in several])
            for guess, several in zip(scored, chosen, strict=True)
        ]
        return sorted(split, key=lambda several: -several[0].total)[: self.top]

    def row(
        self, encoded: TextEncoding, sizes: dict[int, int]
    ) -> tuple[MaskedRow, dict[int, list[int]]]:
        """Returns the tokens with `sizes[gap]` masks per gap, and the positions of the masks."""
        ids: list[int] = []
        segments: list[int] = []
        places: dict[int, list[int]] = {}
        for id, segment in zip(encoded.ids, encoded.segments, strict=True):
            count = 1
            if id == self.mask:
                gap = len(places)
                count = sizes.get(gap, 1)
                places[gap] = [*range(len(ids), len(ids) + count)]
            ids += [id] * count
            segments += [segment] * count
        return MaskedRow(ids, segments), places

    def candidate(self, guess: Guess) -> FillCandidate:
        text = self.tokenizer.decode(guess.tokens)
        probability = math.exp(guess.logprob)
        return FillCandidate(text.strip() or text, probability, math.exp(guess.score), guess.tokens)

    def filling(
        self,
        text: str,
        places: Sequence[tuple[int, int]],
        encoded: TextEncoding,
        several: Sequence[Guess],
    ) -> GapFilling:
        at = [i for i, id in enumerate(encoded.ids) if id == self.mask]
        filled, end = "", 0
        for (start, stop), slot, guess in zip(places, at, several, strict=True):
            filled += text[end:start]
            word = self.candidate(guess).text
            if self.continues(encoded.ids[slot - 1] if slot else None, guess.tokens):
                filled, word = filled.rstrip(), word.removeprefix("##")
            filled, end = filled + word, stop
        words = tuple(self.candidate(guess).text for guess in several)
        return GapFilling(filled + text[end:], words, math.exp(several[0].total))

    def continues(self, before: int | None, tokens: Sequence[int]) -> bool:
        """Whether these tokens continue the word before them (BERT's ##s)."""
        if before is None or before in self.tokenizer.special_ids:
            return False
        alone = self.tokenizer.decode([before])
        joined = self.tokenizer.decode([before, *tokens])
        behind = joined.removeprefix(alone)
        return bool(alone.strip()) and joined.startswith(alone) and not behind[:1].isspace()


def _split(guess: Guess, sizes: Sequence[int]) -> list[Guess]:
    """Splits a guess over several gaps into one per gap; each keeps the total of all."""
    parts, start = [], 0
    for size in sizes:
        own = slice(start, start + size)
        parts.append(Guess(guess.tokens[own], guess.logprobs[own], guess.total))
        start += size
    return parts
