"""Translates texts of any length and keeps their paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, Unpack, overload

from glassformer.errors import ConfigError, GlassformerError, InputError
from glassformer.generate import GenerationOutput
from glassformer.generate.options import GenerationOptions
from glassformer.tasks.batching import apply_to
from glassformer.tasks.directions import Directions, check_text_language, own_code
from glassformer.tasks.heads import rewrites
from glassformer.tasks.model_protocol import TaskModel, require_tokenizer
from glassformer.tasks.registry import TrainingData, task
from glassformer.tasks.rewrite import Finish, Ids, Rewriter
from glassformer.tasks.segmenting import Together, as_line, parts_of, rejoined
from glassformer.tasks.sentences import TextSpan, blocks
from glassformer.tasks.task_cache import cached_task
from glassformer.tasks.task_settings import SETTINGS, TRAINED, settings_of

Split = Literal["parts", "sentences", "none"]
SPLITS = ("parts", "sentences", "none")
PAIR = re.compile(r"translation_(.+)_to_(.+)")  # T5's names of tasks in config.json
NEW_TOKENS = 256  # the default maximum of a part
FACTOR = 3.0  # the maximum ratio of the tokens of a translation to those of its source


@dataclass(frozen=True)
class TranslatedPart:
    """The translation of a text from `start` to `end`.

    `score` is the score of the beam, `finish_reason` why generation ended: "length" if it was cut
    off.
    """

    start: int
    end: int
    text: str
    score: float | None
    finish_reason: str


@dataclass(frozen=True)
class Translation:
    """The translation of a text and of its parts."""

    text: str
    parts: tuple[TranslatedPart, ...]
    unknown_ratio: float = 0.0  # the share of the source that the vocabulary does not know

    def __str__(self) -> str:
        return self.text

    def record(self) -> dict[str, Any]:
        parts = [asdict(part) for part in self.parts]
        return {"translation": self.text, "parts": parts, "unknown_ratio": self.unknown_ratio}


@task(
    "translate",
    head="lm",
    objective="sequence-to-sequence or continuation",
    fits=rewrites,
    training=TrainingData(
        columns={"source": ("input", "src"), "target": ("output", "tgt", "translation")},
        metric="perplexity",
        evaluation="translation",
        format="parallel",
    ),
)
class Translator:
    """Translates texts with a model, its languages and generation options.

    See `translate`. With `keep_empty`, an empty text is not an error and stays as it is. Without
    `check_language`, a text in another language than the model expects is not an error.
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
        check_language: bool = True,
        **generation: Any,
    ) -> None:
        self.keep_empty = keep_empty
        saved = {**settings_of(model, "translation"), **settings_of(model, TRAINED)}
        directions = Directions.parse(saved.get("directions"))
        codes = _codes(model, directions)
        source, target = (own_code(one, codes) for one in (source_language, target_language))
        target = target or saved.get("target_language")
        directions.check(source, target)
        target = target or directions.target_of(source)
        task = None if source_prefix is not None else _task(model, (source, target), directions)
        if task is None:  # otherwise the task's prefix names the languages
            named = {"source_language": source, "target_language": target}
            generation |= {name: code for name, code in named.items() if code is not None}
        self.rewriter = Rewriter(
            model,
            "translate",
            task or "translation",
            generation,
            source_prefix=source_prefix,
            separator=separator,
            max_source_length=max_source_length,
            new_tokens=NEW_TOKENS,
        )
        self.split: Split = split or self.rewriter.saved.get("split", "parts")
        if not isinstance(self.split, str) or self.split not in SPLITS:
            raise ConfigError(f"split is one of {', '.join(SPLITS)}, not {self.split!r}.")
        if source_prefix is None and self._lacks_target():
            raise ConfigError(
                "Name the language to translate into (target_language, --to), as the tokenizer "
                "names them."
            )
        self.target = target
        asked = check_language and source is None and source_prefix is None
        self.sources = self._sources(task, directions) if asked else ()
        self.known: Directions | Sequence[str] = (
            directions if directions.pairs else self.rewriter.tokenizer.languages
        )

    def _sources(self, task: str | None, directions: Directions) -> Sequence[str]:
        """Returns the languages that texts are expected to be in; none if nothing says it."""
        if directions.pairs:
            return directions.sources_of(self.target)
        pair = None if task is None else PAIR.fullmatch(task)
        read = self.rewriter.tokenizer.source_language if pair is None else pair[1]
        return () if read is None else (read,)

    def _lacks_target(self) -> bool:
        """Whether the model has several languages and no target language is set."""
        config, tokenizer = self.rewriter.config, require_tokenizer(self.rewriter.model)
        if tokenizer.language is None or tokenizer.target_tokenizer is not tokenizer:
            return False
        start = config.decoder_start_token_id
        plain = start is None or start in tokenizer.special.values()
        return config.target_language is None and config.forced_bos_token_id is None and plain

    def __call__(self, texts: Iterable[str]) -> Iterator[Translation | GlassformerError]:
        """Yields translations in the order of the texts, each as soon as it is complete.

        Errors are yielded in place of their texts.
        """
        return self.rewriter.each(texts, self._prepared, FACTOR)

    def _prepared(self, text: str) -> tuple[list[Ids], Finish[Translation]]:
        if self.keep_empty and not text.strip():
            return [], lambda _: Translation(text, ())
        spans = self.spans(self.rewriter.checked(text))
        if self.sources:
            check_text_language(text, self.sources, self.target, self.known)
        sources = [self.rewriter.ids(as_line(text[slice(*span)])) for span in spans]
        return sources, partial(_joined, text, spans, self.rewriter.unknown_ratio(text))

    def spans(self, text: str) -> list[TextSpan]:
        """Returns the spans of a text that are translated separately."""
        capacity, measure = self.rewriter.capacity, self.rewriter.measure
        if self.split != "none":
            together: Together = "sentence" if self.split == "sentences" else "paragraph"
            return parts_of(text, lambda part: measure(as_line(part)), capacity, together)
        length = measure(text)
        if length > capacity:
            raise InputError(
                f"The text has {length} tokens, and the model reads {capacity} at once; let it be "
                "split into parts or sentences (split)."
            )
        paragraphs = blocks(text)
        return [TextSpan(paragraphs[0].start, paragraphs[-1].end)]


class TranslatorOptions(GenerationOptions, total=False):
    """The keyword arguments of `translate`."""

    split: Split | None
    max_source_length: int | None
    source_prefix: str | None
    separator: str | None
    keep_empty: bool
    to: str | None


@overload
def translate(  # type: ignore[overload-overlap]
    model: TaskModel, texts: str, **options: Unpack[TranslatorOptions]
) -> Translation: ...


@overload
def translate(
    model: TaskModel, texts: Sequence[str], **options: Unpack[TranslatorOptions]
) -> list[Translation]: ...


@overload
def translate(
    model: TaskModel, texts: Iterator[str], **options: Unpack[TranslatorOptions]
) -> Iterator[Translation]: ...


def translate(
    model: TaskModel,
    texts: str | Sequence[str] | Iterator[str],
    *,
    source_language: str | None = None,
    target_language: str | None = None,
    split: Split | None = None,
    max_source_length: int | None = None,
    source_prefix: str | None = None,
    separator: str | None = None,
    keep_empty: bool = False,
    to: str | None = None,
    **generation: Any,
) -> Translation | list[Translation] | Iterator[Translation]:
    """Translates texts. Long texts are translated in parts and keep their paragraphs.

    Args:
        model: An encoder-decoder, or a decoder-only model trained to translate.
        texts: A text, or a list or iterator of texts.
        source_language: The language of the texts, for a multilingual model. Without it, a text
            that is surely in another language than the model expects is an error.
        target_language: The language to translate into, for a multilingual model.
        split: What is translated at a time: "parts" (as many sentences of a paragraph as fit),
            "sentences", or "none" for the whole text.
        max_source_length: The maximum number of tokens of a part.
        source_prefix: The text before each source; the default is that of config.json.
        separator: What separates source and target in a decoder-only model; the default is that
            of config.json.
        keep_empty: Whether an empty text stays as it is, instead of raising an error.
        to: Another name of `target_language`, as on the command line.
        **generation: Generation options.

    Returns:
        A `Translation`, a list for a list, an iterator for an iterator.

    >>> m2m.translate("Guten Morgen.", source_language="de", target_language="en").text
    """
    translator = cached_task(
        model,
        Translator,
        source_language=source_language,
        target_language=target_language or to,
        split=split,
        max_source_length=max_source_length,
        source_prefix=source_prefix,
        separator=separator,
        keep_empty=keep_empty,
        **generation,
    )
    results: Translation | list[Translation] | Iterator[Translation]
    results = apply_to(model, texts, translator)
    return results


def _codes(model: TaskModel, directions: Directions) -> set[str]:
    """Returns the codes of languages of a model."""
    tokenizer = require_tokenizer(model)
    tasks = map(PAIR.fullmatch, model.config.get(SETTINGS) or {})
    pairs = (*directions.pairs, *(match.groups() for match in tasks if match is not None))
    return {code for pair in pairs for code in pair} | {
        *tokenizer.languages,
        *tokenizer.language_tokens,
    }


def _task(model: TaskModel, languages: Sequence[str | None], directions: Directions) -> str | None:
    """Returns config.json's name of the task of translating between these languages.

    It is None unless config.json has a task per language pair, as T5's does, and the model was not
    trained here.
    """
    tasks: dict[str, Any] = model.config.get(SETTINGS) or {}
    pairs = {match.groups(): name for name in tasks if (match := PAIR.fullmatch(name))}
    if not pairs or TRAINED in tasks:  # it was trained on something else since
        tokens = require_tokenizer(model).language_tokens
        if tokens and languages[1] is None:
            known = f"translates {directions}" if directions.pairs else f"knows {', '.join(tokens)}"
            raise ConfigError(
                f"Name the language to translate into (target_language, --to); the model {known}."
            )
        return None
    fitting = [
        pair
        for pair in pairs
        if all(want in (None, has) for want, has in zip(languages, pair, strict=True))
    ]
    if len(fitting) == 1:
        return pairs[fitting[0]]
    known = ", ".join(" to ".join(pair) for pair in pairs)
    raise ConfigError(
        "Name the languages (source_language, target_language; --from, --to); the model "
        f"translates {known}."
    )


def _joined(
    text: str,
    spans: Sequence[TextSpan],
    unknown_ratio: float,
    written: Sequence[GenerationOutput],
) -> Translation:
    texts = [as_line(one.text.strip()) for one in written]
    parts = tuple(
        TranslatedPart(*span, translated, one.score, one.finish_reason)
        for span, translated, one in zip(spans, texts, written, strict=True)
    )
    return Translation(rejoined(text, spans, texts), parts, unknown_ratio)
