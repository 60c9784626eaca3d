"""Translates texts of any length and keeps their paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

from glassformer.errors import ConfigError, GlassformerError, InputError
from glassformer.generate import GenerationOutput
from glassformer.tasks.batching import Pause
from glassformer.tasks.model_protocol import (
    SETTINGS,
    TRAINED,
    TaskModel,
    apply_to,
    require_tokenizer,
)
from glassformer.tasks.rewrite import Finish, Ids, Rewriter
from glassformer.tasks.segmenting import Together, as_line, parts_of, rejoined
from glassformer.tasks.sentences import TextSpan, blocks

Split = Literal["parts", "sentences", "none"]
SPLITS = ("parts", "sentences", "none")
PAIR = re.compile(r"translation_(.+)_to_(.+)")  # T5's names of tasks in config.json
NEW_TOKENS = 256  # the default maximum of a part
FACTOR = 3.0  # the maximum ratio of the tokens of a translation to those of its source


@dataclass(frozen=True)
class TranslatedPart:
    """The translation of a text from `start` to `end`.

    `score` is the score of the beam, `stop` why generation ended: "length" if it was cut off.
    """

    start: int
    end: int
    text: str
    score: float | None
    stop: str


@dataclass(frozen=True)
class Translation:
    """The translation of a text and of its parts."""

    text: str
    parts: tuple[TranslatedPart, ...]

    def __str__(self) -> str:
        return self.text

    def record(self) -> dict[str, Any]:
        return {"translation": self.text, "parts": [asdict(part) for part in self.parts]}


class Translator:
    """Translates texts with a model, its languages and generation options.

    See `Model.translate`. With `keep_empty`, an empty text is not an error and stays as it is.
    """

    def __init__(
        self,
        model: TaskModel,
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        split: Split | None = None,
        max_source_length: int | None = None,
        source_prefix: str | None = None,
        separator: str | None = None,
        keep_empty: bool = False,
        **knobs: Any,
    ) -> None:
        self.keep_empty = keep_empty
        asked = (source_language, target_language)
        task = None if source_prefix is not None else _task(model, asked)
        if task is None:  # otherwise the task's prefix names the languages
            named = zip(("source_language", "target_language"), asked, strict=True)
            knobs |= {name: language for name, language in named if language is not None}
        self.rewriter = Rewriter(
            model,
            "translate",
            task or "translation",
            knobs,
            source_prefix=source_prefix,
            separator=separator,
            max_source_length=max_source_length,
            new_tokens=NEW_TOKENS,
        )
        if None not in asked:
            _check_direction(" to ".join(map(str, asked)), self.rewriter.saved.get("directions"))
        self.split: Split = split or self.rewriter.saved.get("split", "parts")
        if self.split not in SPLITS:
            raise ConfigError(f"split is one of {', '.join(SPLITS)}, not {self.split!r}.")
        if source_prefix is None and self._lacks_target():
            raise ConfigError(
                "Say which language to translate into (target_language), as the tokenizer "
                "names them."
            )

    def _lacks_target(self) -> bool:
        """Whether the model has several languages and no target language is set."""
        knobs, tokenizer = self.rewriter.knobs, require_tokenizer(self.rewriter.model)
        if tokenizer.language is None or tokenizer.target is not tokenizer:
            return False
        start = knobs.decoder_start_token_id
        plain = start is None or start in tokenizer.special.values()
        return knobs.target_language is None and knobs.forced_bos_token_id is None and plain

    def stream(self, texts: Iterable[str | Pause]) -> Iterator[Translation | GlassformerError]:
        """Yields translations in the order of the texts, each as soon as it is complete.

        Errors are yielded in place of their texts.
        """
        return self.rewriter.each(texts, self._prepared, FACTOR)

    def _prepared(self, text: str) -> tuple[list[Ids], Finish[Translation]]:
        if self.keep_empty and not text.strip():
            return [], lambda _: Translation(text, ())
        spans = self.spans(self.rewriter.checked(text))
        sources = [self.rewriter.ids(as_line(text[slice(*span)])) for span in spans]
        return sources, partial(_joined, text, spans)

    def spans(self, text: str) -> list[TextSpan]:
        """Returns the spans of a text that are translated separately."""
        room, measure = self.rewriter.room, self.rewriter.measure
        if self.split != "none":
            together: Together = "sentence" if self.split == "sentences" else "paragraph"
            return parts_of(text, lambda part: measure(as_line(part)), room, together)
        length = measure(text)
        if length > room:
            raise InputError(
                f"The text has {length} tokens, and the model reads {room} at once; let it be "
                "split into parts or sentences (split)."
            )
        whole = blocks(text)
        return [TextSpan(whole[0].start, whole[-1].end)]


def translate(model: TaskModel, texts: Any, **options: Any) -> Any:
    """Translates a text, a list or an iterator of texts; see `Model.translate`."""
    return apply_to(texts, Translator(model, **options).stream)


def _task(model: TaskModel, asked: Sequence[str | None]) -> str | None:
    """Returns config.json's name of the task of translating between these languages.

    It is None unless config.json has a task per language pair, as T5's does, and the model was not
    trained here.
    """
    tasks: dict[str, Any] = model.config.get(SETTINGS) or {}
    pairs = {match.groups(): name for name in tasks if (match := PAIR.fullmatch(name))}
    if not pairs or TRAINED in tasks:  # it was trained on something else since
        addresses = require_tokenizer(model).language_tokens
        if addresses and asked[1] is None:
            raise ConfigError(
                "Say which language to translate into (target_language); the model knows "
                f"{', '.join(addresses)}."
            )
        return None
    fitting = [
        pair
        for pair in pairs
        if all(want in (None, has) for want, has in zip(asked, pair, strict=True))
    ]
    if len(fitting) == 1:
        return pairs[fitting[0]]
    known = ", ".join(" to ".join(pair) for pair in pairs)
    raise ConfigError(
        f"Say which languages (source_language, target_language); the model translates {known}."
    )


def _check_direction(asked: str, known: Sequence[str] | None) -> None:
    """Raises if the model was not trained for this direction; it would use another language."""
    if known and asked not in known:
        raise ConfigError(
            f"This model was not taught to translate {asked}, only {', '.join(known)}; go by way "
            "of a language in between."
        )


def _joined(
    text: str, spans: Sequence[TextSpan], written: Sequence[GenerationOutput]
) -> Translation:
    texts = [as_line(one.text.strip()) for one in written]
    parts = tuple(
        TranslatedPart(*span, said, one.score, one.stop)
        for span, said, one in zip(spans, texts, written, strict=True)
    )
    return Translation(rejoined(text, spans, texts), parts)
