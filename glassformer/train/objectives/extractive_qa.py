"""Extractive question answering: answers are spans of a context.

A long context is read in windows, each with the question before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.data.record import Record, invalid
from glassformer.errors import DataError, GlassformerError
from glassformer.metrics.squad import exact_match, right_answers, word_f1
from glassformer.model import Model
from glassformer.tasks.answer import best_spans
from glassformer.tasks.task_settings import keep
from glassformer.tasks.windows import parts
from glassformer.text.encoding import TextEncoding
from glassformer.train.batches.collate import pad, pad_rows
from glassformer.train.objectives.objective import TrainingBatch
from glassformer.train.objectives.registry import objective
from glassformer.train.objectives.rows import Example
from glassformer.train.objectives.sequence_level import (
    LOW,
    TEXT,
    Answer,
    SequenceLevelObjective,
    TextEncoder,
    head_scores,
)
from glassformer.train.objectives.text_inputs import count_tokens, require_head, text_of
from glassformer.train.objectives.usage_example import UsageExample

USUAL_STRIDE = 128


class AnswerWindow(NamedTuple):
    """The best span of one window, and its score against the window having no answer."""

    question: int
    text: str
    score: float
    none: float


@objective("question-answering")
class ExtractiveQA(SequenceLevelObjective):
    """Extractive question answering with columns as in SQuAD.

    The columns are `question`, `context`, `answers` (a list of {"text", "answer_start"}, or one
    object with a list of each) and optionally `impossible` (or `is_impossible`) and `id`. The first
    answer is the target; all count as correct in evaluation.

    A window has at most `max_length` tokens and advances by `stride` tokens of the context (128, or
    half of what fits); at most `max_question_length` tokens of the question are kept. If a window
    lacks the answer, or there is none, the target is the CLS token, or the first token if there is
    no CLS token. A predicted answer has at most `max_answer_length` tokens; with `allow_no_answer`,
    the prediction may also be that there is none.
    """

    pipeline_tag = "question-answering"
    usage = UsageExample("answer", ("Who wrote it?", "Ada Lovelace wrote it in 1843."), ".text")

    columns = ("question", "context", "answers", "impossible", "is_impossible", "id")
    fields: ClassVar = {
        **TEXT,
        "span": np.int32,  # first and last token
        "none": np.int32,  # the token that stands for no answer
        "offsets": np.int32,  # two per context token, in the window's text; 0, 0 for other tokens
        "text": np.uint8,
        "answers": np.uint8,  # a JSON list of strings
        "asked": np.int64,  # a number for the question, the same in all its windows
    }

    def __init__(
        self,
        model: Model,
        *,
        max_length: int | None = None,
        stride: int | None = None,
        max_question_length: int = 64,
        max_answer_length: int = 30,
        allow_no_answer: bool = False,
        head: str = "span",
    ) -> None:
        super().__init__()
        require_head(model, head, "question-answering", "a class such as BertForQuestionAnswering")
        self.texts = TextEncoder(model, max_length, self.tally)
        self.stride, self.question, self.longest = stride, max_question_length, max_answer_length
        self.impossible, self.head = allow_no_answer, head
        self.weights = {head: 1.0}
        if max_length is not None:
            keep(model, head, length=max_length)
        if allow_no_answer:
            keep(model, head, threshold=0.0)

    def lookahead_tokenize(self, records: Sequence[Record]) -> None:
        questions: list[Any] = [
            (record.get("question"), record.get("context")) for record in records
        ]
        self.texts.ahead.read((q.strip(), c) for q, c in questions if isinstance(q, str))

    def prepare(self, record: Record) -> Iterable[Example]:
        where = record.get("where", "A record")
        question, context = text_of(record, "question"), text_of(record, "context")
        encoding = self.texts.ahead.encode(question.strip(), context)
        before, inside, behind = parts(encoding, 1, self.question)
        asked = encoding.sequence.count(0)
        self.tally.count_text(min(asked, self.question), max(0, asked - self.question))
        capacity = self.texts.length - len(before) - len(behind)
        if not inside or capacity < 1:
            raise DataError(f"{where} leaves no tokens for the context; raise max_length.")
        answers = placed(record, context)
        found = tokens_of(encoding, inside, *answers[0]) if answers else None
        about = {
            "answers": as_bytes(json.dumps([text for text, _ in answers])),
            "asked": np.array([number_of(str(record.get("id", where)))]),
        }
        stride = min(self.stride or min(USUAL_STRIDE, (capacity + 1) // 2), capacity)
        for start in range(0, max(1, len(inside) - capacity + stride), stride):
            part = inside[start : start + capacity]
            yield self._window(encoding, before, part, behind, start, found, context) | about

    def _window(
        self,
        encoding: TextEncoding,
        before: list[int],
        part: list[int],
        behind: list[int],
        start: int,
        found: tuple[int, int] | None,
        context: str,
    ) -> Example:
        own = encoding.take([*before, *part, *behind])
        cls = self.texts.tokenizer.special.get("cls")
        none = own.ids.index(cls) if cls in own.ids else 0
        span = (none, none)
        if found is not None and start <= found[0] and found[1] < start + len(part):
            span = (found[0] - start + len(before), found[1] - start + len(before))
        first, last = encoding.offsets[part[0]][0], encoding.offsets[part[-1]][1]
        offsets = np.zeros((len(own), 2), dtype=np.int32)
        offsets[len(before) : len(before) + len(part)] = [encoding.offsets[i] for i in part]
        offsets[len(before) : len(before) + len(part)] -= first
        return {
            "tokens": np.array(own.ids, dtype=np.int32),
            "segments": np.array(own.segments, dtype=np.uint8),
            "span": np.array(span, dtype=np.int32),
            "none": np.array([none], dtype=np.int32),
            "offsets": offsets.flatten(),
            "text": as_bytes(context[first:last]),
        }

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        inputs = self.texts.inputs(examples, self.slots(examples, self.texts.length))
        targets = {"span": pad(examples, "span")[0]}
        counts = {self.head: float(len(examples))}
        return TrainingBatch(
            inputs, targets, counts, count_tokens(examples), {"examples": examples}
        )

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        """Returns the mean cross-entropy of the start and the end over a window's tokens."""
        rows, weights = self.class_scores(head_scores(model, batch, self.head), batch)
        loss = F.cross_entropy(rows, batch.targets["span"].flatten(), reduction="none")
        return {self.head: (loss * weights).sum()}

    def class_scores(self, scores: Tensor, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
        """Returns the scores of a window's slots as its start and as its end.

        `scores` is [window, slot, 2].
        """
        rows = scores.masked_fill(~batch.inputs["attention_mask"][..., None], LOW).mT.flatten(0, 1)
        return rows, scores.new_full((len(rows),), 0.5)

    def answers(self, model: nn.Module, batch: TrainingBatch) -> list[Answer]:
        """Returns the best span of every window, with the answers to its question."""
        examples: Sequence[Example] = batch.extra["examples"]
        scores = head_scores(model, batch, self.head).cpu()  # [window, slot, 2]
        offsets = [example["offsets"].reshape(-1, 2) for example in examples]
        real = [one[:, 1] > 0 for one in offsets]
        inside, _ = pad_rows(real, 0, torch.bool, length=scores.shape[1])
        low = scores.masked_fill(~inside[..., None], float("-inf"))
        best, span = best_spans(low, self.longest, 1)
        found: list[Answer] = []
        for row, one in enumerate(examples):
            first, last = span[row, 0].tolist()
            start, stop = int(offsets[row][first, 0]), int(offsets[row][last, 1])
            text = as_text(one["text"])[start:stop].strip()
            none = float(scores[row, int(one["none"][0])].sum())
            window = AnswerWindow(int(one["asked"][0]), text, float(best[row, 0]), none)
            found.append((window, json.loads(as_text(one["answers"]))))
        return found

    def score(self, answers: Sequence[Answer]) -> dict[str, float]:
        """Returns SQuAD's exact match and F1 over questions."""
        windows: dict[int, list[AnswerWindow]] = {}
        right: dict[int, list[str]] = {}
        for window, texts in answers:
            windows.setdefault(window.question, []).append(window)
            right[window.question] = texts
        given = {question: self._given(own) for question, own in windows.items()}
        return {
            "exact": float(np.mean([exact_match(given[q], right[q]) for q in given])),
            "f1": float(np.mean([word_f1(given[q], right[q]) for q in given])),
        }

    def _given(self, windows: Sequence[AnswerWindow]) -> str:
        best = max(windows, key=lambda window: window.score)
        none = min(window.none for window in windows)
        return "" if self.impossible and none > best.score else best.text


def placed(record: Record, context: str) -> list[tuple[str, int]]:
    """Returns the answers and their starts in the context, and checks the first one."""
    given = record.get("answers") or ()
    try:
        texts = right_answers({**record, "answers": given})
        starts: Any = (
            given.get("answer_start")
            if isinstance(given, Mapping)
            else [one["answer_start"] for one in given]
        )
        pairs = zip(texts, starts, strict=True) if texts else ()
        found = [(text, int(start)) for text, start in pairs]
    except (GlassformerError, LookupError, TypeError, ValueError):
        raise invalid(
            record,
            "the answers are neither a list of objects with a text and an answer_start, nor one "
            "object with a list of each, equally long",
        ) from None
    text, start = found[0] if found else ("", 0)
    if found and (not text or start < 0 or not context.startswith(text, start)):
        raise invalid(
            record, f"the answer {text!r} does not stand at letter {start} of the context"
        )
    return found


def tokens_of(
    encoding: TextEncoding, inside: Sequence[int], text: str, start: int
) -> tuple[int, int] | None:
    """Returns the first and the last context token that overlap a text starting at `start`."""
    stop = start + len(text)
    touched = [
        number
        for number, index in enumerate(inside)
        if encoding.offsets[index][1] > start and encoding.offsets[index][0] < stop
    ]
    return (touched[0], touched[-1]) if touched else None


def number_of(name: str) -> int:
    """Returns a 64-bit hash of a question's name."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)


def as_bytes(text: str) -> NDArray[Any]:
    return np.frombuffer(text.encode("utf-8"), dtype=np.uint8)


def as_text(row: NDArray[Any]) -> str:
    return bytes(row).decode("utf-8")
