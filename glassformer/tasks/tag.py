"""Tags words with named entities or parts of speech, in texts or lists of words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from glassformer.errors import ConfigError, DataError, GlassformerError, InputError
from glassformer.metrics.ner import NerReport, Scheme, entities, names_entities, report, type_of
from glassformer.tasks.batching import apply_to, map_batched, raise_errors, validate_text
from glassformer.tasks.heads import require_head
from glassformer.tasks.model_protocol import TaskModel, require_tokenizer
from glassformer.tasks.packing import can_pack, head_logits
from glassformer.tasks.registry import TrainingData, task
from glassformer.tasks.task_cache import cached_task
from glassformer.tasks.task_settings import labels_of, settings_of
from glassformer.tasks.windowed_inference import WindowedJob, length_of, predict_windows
from glassformer.tasks.windows import WindowFrame, encode_many_words, windows
from glassformer.tasks.words import SPLITS, Split, WordList, find_words
from glassformer.text import TextEncoding
from glassformer.text.unknown import warned

Given = str | Sequence[str]  # a text, or its words
Found = tuple[NDArray[Any], NDArray[Any]]  # of tokens or words: probability, label index
OVERLAP = 4  # a quarter of a window is read again in the next one


@dataclass(frozen=True, slots=True)
class TaggedWord:
    """A word of the text, from `start` to `end`, and its tag.

    A word for which the tokenizer gives no tokens has the tag O, or _ if the model has no O, with
    probability 0.
    """

    text: str
    start: int
    end: int
    tag: str
    probability: float


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity of the text; `probability` is the mean of its words."""

    type: str
    text: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True)
class Tagged:
    """The words and entities of a text; all positions refer to `text`.

    `text` is the given text, or the given words joined by spaces.
    """

    text: str
    words: tuple[TaggedWord, ...]
    entities: tuple[Entity, ...]  # empty if the tags are parts of speech
    unknown_ratio: float = 0.0  # the share of the text that the vocabulary does not know

    @property
    def tags(self) -> list[str]:
        return [word.tag for word in self.words]

    def record(self, words: bool = True) -> dict[str, Any]:
        """Returns a dict for JSON."""
        found: dict[str, Any] = {"entities": [asdict(entity) for entity in self.entities]}
        found["unknown_ratio"] = self.unknown_ratio
        return found | {"words": [asdict(word) for word in self.words]} if words else found


class TaggerOptions(TypedDict, total=False):
    """The keyword arguments of `tag`."""

    split: Split | None
    max_length: int | None
    stride: int | None
    head: str | None


@overload
def tag(model: TaskModel, texts: str, **options: Unpack[TaggerOptions]) -> Tagged: ...  # type: ignore[overload-overlap]


@overload
def tag(
    model: TaskModel, texts: Sequence[Given], **options: Unpack[TaggerOptions]
) -> list[Tagged]: ...


@overload
def tag(
    model: TaskModel, texts: Iterator[Given], **options: Unpack[TaggerOptions]
) -> Iterator[Tagged]: ...


def tag(
    model: TaskModel,
    texts: str | Sequence[Given] | Iterator[Given],
    *,
    split: Split | None = None,
    max_length: int | None = None,
    stride: int | None = None,
    head: str | None = None,
) -> Tagged | list[Tagged] | Iterator[Tagged]:
    """Tags the words of texts of any length and extracts entities with their positions.

    Args:
        model: A model with a head for tagging.
        texts: A text, or a list or iterator of texts or of lists of words.
        split: How to split a text into words: "words", "characters" or "spaces".
        max_length: The tokens of a window.
        stride: The tokens between the starts of two windows.
        head: The name of the head, if the model has several.

    Returns:
        A `Tagged`, a list for a list, an iterator for an iterator.

    >>> model.tag("Ada Lovelace was born in London.").entities
    """
    tagger = cached_task(
        model, Tagger, split=split, max_length=max_length, stride=stride, head=head
    )
    results: Tagged | list[Tagged] | Iterator[Tagged] = apply_to(model, texts, tagger)
    return results


@task(
    "tag",
    head="tag",
    objective="tagging",
    training=TrainingData(
        columns={
            "words": ("tokens", "text", "sentence"),
            "tags": ("ner_tags", "labels", "pos_tags", "label", "tag"),
        },
        metric="accuracy",
        evaluation="tagging",
        format="conll",
    ),
)
class Tagger:
    """Tags texts of any length with a model's head for every word.

    Longer texts are read in windows; a word gets its tag from the window in which it has the most
    context.

    Args:
        model: A model with a head for tagging.
        split: How to split a text into words: "words", "characters" or "spaces". The default is
            that of config.json, or else "words".
        max_length: The tokens of a window.
        stride: The tokens between the starts of two windows; the default is three quarters of a
            window.
        head: The name of the head, if the model has several.
    """

    def __init__(
        self,
        model: TaskModel,
        *,
        split: Split | None = None,
        max_length: int | None = None,
        stride: int | None = None,
        head: str | None = None,
    ) -> None:
        self.model, self.tokenizer = model, require_tokenizer(model)
        self.head = require_head(model, "tag", "tag", head)
        self.labels = labels_of(model, self.head)
        self.marked = names_entities(self.labels)
        saved = settings_of(model, self.head.name)
        self.split: Split = split or saved.get("split", "words")
        if not isinstance(self.split, str) or self.split not in SPLITS:
            raise ConfigError(f"split is {', '.join(SPLITS)}, not {self.split!r}.")
        self.frame = WindowFrame.of(self.tokenizer)
        self.capacity = self.frame.capacity(length_of(model, max_length, saved))
        self.stride = self.capacity - self.capacity // OVERLAP if stride is None else stride

    def __call__(self, texts: Iterable[Given]) -> Iterator[Tagged | GlassformerError]:
        """Yields results in order; a text that cannot be read yields an error in its place."""
        return map_batched(texts, self._predict)

    def _predict(self, texts: list[Given]) -> Iterator[Tagged | GlassformerError]:
        found: Found | None = None  # for the words of a text
        jobs = [self._job(text) for text in texts]
        packed = can_pack(self.model)
        for step in predict_windows(self.model, jobs, self._forward, packed=packed):
            if isinstance(step, GlassformerError):
                yield step
                found = None
                continue
            if found is None:
                size = len(step.about)
                found = np.zeros(size, np.float32), np.full(size, -1, np.int32)
            for i in step.window.own_tokens:
                word, slot = step.window.text.words[i], step.before + i
                if word is not None and found[1][word] < 0:  # its first token
                    for known, side in zip(found, step.result, strict=True):
                        known[word] = side[slot]
            if step.last:
                yield self._tagged(step.about, found)
                found = None

    def report(
        self,
        words: Iterable[Sequence[str]],
        tags: Iterable[Sequence[str]],
        scheme: Scheme | None = None,
    ) -> NerReport:
        """Scores the model on words with gold tags; see `metrics.ner.report`."""
        texts, gold = [*words], [*tags]
        if len(texts) != len(gold):
            raise InputError(f"There are {len(texts)} texts, and tags for {len(gold)}.")
        for one, right in zip(texts, gold, strict=True):
            self.check(one, right)
        return report([found.tags for found in raise_errors(self(texts))], gold, scheme)

    def check(self, words: Sequence[str], tags: Sequence[str]) -> None:
        """Raises if the tags cannot be gold tags of the words, given the model's labels."""
        if len(words) != len(tags):
            raise DataError(f"There are {len(words)} words and {len(tags)} tags.")
        known = {self._kind(label) for label in self.labels}
        unknown = next((tag for tag in tags if self._kind(tag) not in known), None)
        if unknown is not None:
            raise DataError(
                f"The model does not have the tag {unknown!r}; it has {', '.join(self.labels)}."
            )

    def _kind(self, tag: str) -> str:
        """Returns the type of a tag, because a scheme may use other prefixes than the model."""
        return type_of(tag) if self.marked else tag

    def _job(self, given: Given) -> WindowedJob[WordList] | GlassformerError:
        try:
            words = self._words(given)
        except GlassformerError as error:
            return error
        blocks = encode_many_words(self.tokenizer, words)
        return WindowedJob(words, self.frame, windows(blocks, self.capacity, self.stride))

    def _words(self, given: Given) -> WordList:
        if not isinstance(given, str):
            if not isinstance(given, Sequence):
                raise InputError(
                    f"A text must be a str or a list of words, not {type(given).__name__}."
                )
            invalid = [word for word in given if not isinstance(word, str) or not word.strip()]
            if invalid:
                raise InputError(f"The words contain {invalid[0]!r}, which is not a word.")
        text = given if isinstance(given, str) else " ".join(given)
        error = validate_text(text)
        if error is not None:
            raise error
        if isinstance(given, str):
            spans = np.fromiter(chain.from_iterable(find_words(text, self.split)), np.int64)
            starts, ends = spans[::2], spans[1::2]
        else:
            sizes = np.fromiter(map(len, given), np.int64)
            ends = np.cumsum(sizes + 1) - 1
            starts = ends - sizes
        if not len(starts):
            raise InputError("The text has no words.")
        return WordList(text, starts, ends)

    def _forward(self, inputs: dict[str, Tensor], texts: list[TextEncoding]) -> list[Found]:
        logits = head_logits(self.model, inputs, self.head.name).float()
        probabilities, labels = (side.cpu().numpy() for side in logits.softmax(-1).max(-1))
        return list(zip(probabilities, labels, strict=True))

    def _tagged(self, given: WordList, found: Found) -> Tagged:
        unknown = "O" if "O" in self.labels else "_"
        tags = [*self.labels, unknown]  # the last has index -1
        sides = (given.starts, given.ends, *found)
        words = tuple(
            TaggedWord(given.text[start:end], start, end, tags[label], chance)
            for start, end, chance, label in zip(*(side.tolist() for side in sides), strict=True)
        )
        spans = sorted(entities([w.tag for w in words]), key=lambda e: e[1]) if self.marked else []
        named = tuple(self._entity(given.text, words, *e) for e in spans)
        return Tagged(given.text, words, named, warned(self.tokenizer.unknown_ratio(given.text)))

    def _entity(
        self, text: str, words: Sequence[TaggedWord], kind: str, first: int, last: int
    ) -> Entity:
        start, end = words[first].start, words[last].end
        probabilities = [word.probability for word in words[first : last + 1]]
        return Entity(kind, text[start:end], start, end, sum(probabilities) / len(probabilities))
