"""Extractive question answering over contexts of any length."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import repeat
from typing import Any, NamedTuple, TypedDict, Unpack, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.errors import ConfigError, GlassformerError, InputError
from glassformer.tasks.batching import (
    map_batched,
    raise_errors,
    require_iterable,
    validate_text,
)
from glassformer.tasks.heads import require_head
from glassformer.tasks.model_protocol import TaskModel, require_tokenizer
from glassformer.tasks.registry import TrainingData, task
from glassformer.tasks.task_cache import cached_task
from glassformer.tasks.task_settings import settings_of
from glassformer.tasks.windowed_inference import WindowedJob, length_of, predict_windows
from glassformer.tasks.windows import TextWindow, WindowFrame, encode_long, windows
from glassformer.tasks.words import whole_characters
from glassformer.text import TextEncoding
from glassformer.text.unknown import warned

OVERLAP = 128  # tokens that two windows share, or half a window
RIVALS = 20  # the minimum number of spans over which probabilities are normalized, as is usual


@dataclass(frozen=True)
class AnswerSpan:
    """A span of the context: `text` is the context from `start` to `end`."""

    text: str
    start: int
    end: int
    score: float
    probability: float


@dataclass(frozen=True)
class Answer:
    """The best span, or an empty text without a position if there is no answer.

    `margin` is the best span's score minus the no-answer score; `alternatives` are the best spans,
    even if none of them is given as the answer. `unknown_ratio` is the share of question and
    context that the vocabulary does not know, whichever is larger.
    """

    text: str
    start: int | None
    end: int | None
    probability: float
    margin: float
    alternatives: tuple[AnswerSpan, ...]
    unknown_ratio: float = 0.0

    def record(self) -> dict[str, Any]:
        """Returns a dict for JSON."""
        return asdict(self)


class ContextToRead(NamedTuple):
    """A context, and the share of it, or of its question, that the vocabulary does not know."""

    context: str
    unknown_ratio: float


class QuestionContext(NamedTuple):
    """The results of one window: (score, first token, last token) spans and the no-answer score."""

    spans: list[tuple[float, int, int]]
    none: float


class AnswererOptions(TypedDict, total=False):
    """The keyword arguments of `answer`."""

    threshold: float | None
    n_best: int
    max_answer_length: int
    max_question_length: int
    max_length: int | None
    stride: int | None
    head: str | None


@overload
def answer(  # type: ignore[overload-overlap]
    model: TaskModel, question: str, context: str, **options: Unpack[AnswererOptions]
) -> Answer: ...


@overload
def answer(  # type: ignore[overload-overlap]
    model: TaskModel,
    question: Iterator[str],
    context: str | Iterator[str],
    **options: Unpack[AnswererOptions],
) -> Iterator[Answer]: ...


@overload
def answer(  # type: ignore[overload-overlap]
    model: TaskModel, question: str, context: Iterator[str], **options: Unpack[AnswererOptions]
) -> Iterator[Answer]: ...


@overload
def answer(
    model: TaskModel,
    question: Sequence[str],
    context: str | Sequence[str] | Iterator[str],
    **options: Unpack[AnswererOptions],
) -> list[Answer]: ...


@overload
def answer(
    model: TaskModel,
    question: Iterator[str],
    context: Sequence[str],
    **options: Unpack[AnswererOptions],
) -> list[Answer]: ...


def answer(
    model: TaskModel,
    question: str | Iterable[str],
    context: str | Iterable[str],
    *,
    threshold: float | None = None,
    n_best: int = 5,
    max_answer_length: int = 30,
    max_question_length: int = 64,
    max_length: int | None = None,
    stride: int | None = None,
    head: str | None = None,
) -> Answer | list[Answer] | Iterator[Answer]:
    """Answers questions about contexts.

    Args:
        model: A model with a head for answers.
        question: A question, or a list or iterator of them.
        context: A context, or a list or iterator of them. One question may be combined with
            several contexts and vice versa; several of both are paired.
        threshold: The minimum margin of an answer; below it there is no answer.
        n_best: The number of alternatives.
        max_answer_length: The maximum length of an answer in tokens.
        max_question_length: The maximum number of tokens of the question.
        max_length: The tokens of a window, including the question.
        stride: The tokens between the starts of two windows.
        head: The name of the head, if the model has several.

    Returns:
        An `Answer` for one question and context; a list if a list was given, else an iterator.

    >>> model.answer("Where was she born?", "Ada Lovelace was born in London.").text
    """
    answerer = cached_task(
        model,
        Answerer,
        threshold=threshold,
        n_best=n_best,
        max_answer_length=max_answer_length,
        max_question_length=max_question_length,
        max_length=max_length,
        stride=stride,
        head=head,
    )
    if isinstance(question, str) and isinstance(context, str):
        return next(raise_errors(answerer([(question, context)])))
    sides = [repeat(s) if isinstance(s, str) else require_iterable(s) for s in (question, context)]
    listed = [len(side) for side in (question, context) if isinstance(side, list | tuple)]
    if len({*listed}) > 1:
        raise InputError(f"There are {listed[0]} questions and {listed[1]} contexts.")
    results = raise_errors(answerer(zip(*sides, strict=False)), model)
    return list(results) if listed else results


@task(
    "answer",
    head="span",
    objective="question-answering",
    training=TrainingData(
        columns={
            "question": ("query",),
            "context": ("passage", "paragraph", "text", "document"),
            "answers": ("answer",),
        },
        optional={"impossible": ("is_impossible",), "id": ()},
        metric="f1",
        evaluation="question-answering",
        format="squad",
    ),
)
class Answerer:
    """Finds answers in contexts of any length with a model's head for answers.

    Args:
        model: A model with a head for answers.
        threshold: The minimum margin of an answer; below it there is no answer. The default is that
            of config.json; without any, there is always an answer.
        n_best: The number of alternatives.
        max_answer_length: The maximum length of an answer in tokens.
        max_question_length: The maximum number of tokens of the question.
        max_length: The tokens of a window, including the question.
        stride: The tokens between the starts of two windows.
        head: The name of the head, if the model has several.
    """

    def __init__(
        self,
        model: TaskModel,
        *,
        threshold: float | None = None,
        n_best: int = 5,
        max_answer_length: int = 30,
        max_question_length: int = 64,
        max_length: int | None = None,
        stride: int | None = None,
        head: str | None = None,
    ) -> None:
        for name, value in (
            ("n_best", n_best),
            ("max_answer_length", max_answer_length),
            ("max_question_length", max_question_length),
        ):
            if value < 1:
                raise ConfigError(f"{name} must be at least 1, not {value}.")
        self.model, self.tokenizer = model, require_tokenizer(model)
        self.head = require_head(model, "span", "answer", head)
        saved = settings_of(model, self.head.name)
        self.threshold = saved.get("threshold") if threshold is None else threshold
        if not isinstance(self.threshold, int | float | None):
            raise ConfigError(f"A threshold is a number, not {self.threshold!r}.")
        self.n_best, self.longest, self.question = n_best, max_answer_length, max_question_length
        self.length, self.stride = length_of(model, max_length, saved), stride

    def __call__(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Answer | GlassformerError]:
        """Yields answers to (question, context) pairs in order.

        A pair that cannot be read yields an error in its place.
        """
        return map_batched(pairs, self._predict)

    def _predict(self, pairs: list[tuple[str, str]]) -> Iterator[Answer | GlassformerError]:
        found = Spans(self)
        jobs = [self._job(pair) for pair in pairs]
        for step in predict_windows(self.model, jobs, self._forward):
            if isinstance(step, GlassformerError):
                yield step
                found = Spans(self)
                continue
            found.add(step.about.context, step.window, step.before, step.result)
            if step.last:
                yield found.answer(step.about)
                found = Spans(self)

    def _job(self, pair: tuple[str, str]) -> WindowedJob[ContextToRead] | GlassformerError:
        question, context = pair
        for name, text in (("question", question), ("context", context)):
            error = validate_text(text)
            if error is not None:
                return InputError(str(error).replace("The text", f"The {name}"))
        try:
            frame = WindowFrame.of(self.tokenizer, question.strip(), self.question)
            capacity = frame.capacity(self.length)
        except GlassformerError as error:
            return error
        stride = capacity - min(OVERLAP, capacity // 2) if self.stride is None else self.stride
        blocks = encode_long(self.tokenizer, context)
        about = ContextToRead(context, warned(max(map(self.tokenizer.unknown_ratio, pair))))
        return WindowedJob(about, frame, windows(blocks, capacity, stride))

    def _forward(
        self, inputs: dict[str, Tensor], texts: list[TextEncoding]
    ) -> list[QuestionContext]:
        out = self.model(**inputs, heads=(self.head.name,)).head_outputs
        if self.head.beam is not None:
            found = {
                key.removeprefix(f"{self.head.name}."): value.float().tolist()
                for key, value in out.items()
            }
            return [self._searched(found, row, text) for row, text in enumerate(texts)]
        scores = out[self.head.name].float()
        inside = torch.zeros(scores.shape[:2], dtype=torch.bool)
        for row, text in enumerate(texts):
            inside[row, : len(text)] = torch.tensor([number == 1 for number in text.sequence])
        cls = self.tokenizer.special.get("cls")
        at = [text.ids.index(cls) if cls in text.ids else 0 for text in texts]
        none = scores[range(len(texts)), at].sum(-1)
        outside = ~inside[..., None].to(scores.device)
        best, spans = best_spans(
            scores.masked_fill(outside, -math.inf), self.longest, max(self.n_best, RIVALS)
        )
        rows = zip(best.tolist(), spans.tolist(), none.tolist(), strict=True)
        return [
            QuestionContext([(b, *s) for b, s in zip(*row, strict=True) if b > -math.inf], n)
            for *row, n in rows
        ]

    def _searched(
        self, found: dict[str, list[Any]], row: int, text: TextEncoding
    ) -> QuestionContext:
        """Reads the output of a beam-search head: several starts, and several ends for each."""
        starts = list(zip(found["start"][row], found["start_at"][row], strict=True))
        ends = list(zip(found["end"][row], found["end_at"][row], strict=True))
        spans = [
            (math.log(start) + math.log(end), int(first), int(last))
            for number, (start, first) in enumerate(starts)
            for end, last in ends[number :: len(starts)]
            if start * end > 0 and 0 <= last - first < self.longest
            if text.sequence[int(first)] == text.sequence[int(last)] == 1
        ]
        return QuestionContext(spans, found["possible"][row])


class Spans:
    """Collects the best spans of a context, window by window."""

    def __init__(self, answerer: Answerer) -> None:
        self.settings = answerer
        self.best: dict[tuple[int, int], float] = {}  # by position in the context
        self.none = math.inf

    def add(
        self, context: str, window: TextWindow, before: int, question_context: QuestionContext
    ) -> None:
        self.none = min(self.none, question_context.none)
        for score, first, last in question_context.spans:
            start, end = (
                window.text.offsets[first - before][0],
                window.text.offsets[last - before][1],
            )
            place = whole_characters(context, start, end)
            if place[0] < place[1]:
                self.best[place] = max(score, self.best.get(place, -math.inf))
        ranked = sorted(self.best.items(), key=lambda item: -item[1])
        self.best = dict(ranked[: max(RIVALS, self.settings.n_best)])

    def answer(self, about: ContextToRead) -> Answer:
        (context, unknown), settings = about, self.settings
        top = max(self.best.values(), default=-math.inf)
        alone = settings.head.beam is not None  # its no-answer score does not depend on the spans
        margin = -self.none if alone else top - self.none
        refused = not self.best or (settings.threshold is not None and margin < settings.threshold)
        shares = [math.exp(score - top) for score in self.best.values()]
        odds = (
            math.exp(min(-margin, 700.0)) if self.best and settings.threshold is not None else 0.0
        )
        total = sum(shares) * (1 + odds) if alone else sum(shares) + odds
        spans = tuple(
            AnswerSpan(context[start:end], start, end, score, share / total)
            for ((start, end), score), share in zip(self.best.items(), shares, strict=True)
        )[: settings.n_best]
        if refused:
            chance = 1 - sum(shares) / total if self.best else 1.0
            return Answer("", None, None, chance, margin if self.best else 0.0, spans, unknown)
        best = spans[0]
        return Answer(best.text, best.start, best.end, best.probability, margin, spans, unknown)


def best_spans(scores: Tensor, longest: int, count: int) -> tuple[Tensor, Tensor]:
    """Finds the best sums of a start score and an end score at or after it.

    Args:
        scores: Start and end scores, [window, slot, 2].
        longest: The maximum length of a span in slots.
        count: The maximum number of spans.

    Returns:
        The sums, [window, span], the best first, and their slots, [window, span, 2].
    """
    starts, ends = scores.unbind(-1)
    ends = F.pad(ends, (0, longest - 1), value=-math.inf).unfold(1, longest, 1)
    pairs = (starts[..., None] + ends).flatten(1)  # [window, start * length]
    best, place = pairs.topk(min(count, pairs.shape[1]), -1)
    first = place // longest
    return best, torch.stack((first, first + place % longest), -1)
