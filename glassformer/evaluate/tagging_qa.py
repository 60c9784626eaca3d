"""Evaluation of tagging and of extractive question answering."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from glassformer.data.record import Record
from glassformer.errors import DataError, GlassformerError
from glassformer.evaluate.evaluator import Evaluator, field
from glassformer.metrics.bootstrap import MetricWithCI, Resamples, bootstrap_means, bootstrap_sums
from glassformer.metrics.classification import (
    Numbers,
    OfCounts,
    accuracy_of_counts,
    macro_f1_of_counts,
    micro_f1_of_counts,
    precision_of_counts,
    recall_of_counts,
    statistics,
)
from glassformer.metrics.ner import entities, report
from glassformer.metrics.report_table import ScoreTable
from glassformer.metrics.squad import exact_match, right_answers, word_f1
from glassformer.model import Model
from glassformer.tasks.answer import Answer, Answerer
from glassformer.tasks.tag import Tagged, Tagger
from glassformer.train.objectives.labels import label_of

ENTITIES: dict[str, OfCounts] = {
    "f1": micro_f1_of_counts,
    "precision": precision_of_counts,
    "recall": recall_of_counts,
    "macro_f1": macro_f1_of_counts,
    "accuracy": accuracy_of_counts,
}
WORDS: dict[str, OfCounts] = {"accuracy": accuracy_of_counts}


class TaggedWords(NamedTuple):
    """Words with their correct tags."""

    words: list[str]
    tags: list[str]


class TaggingEvaluator(Evaluator[TaggedWords, Tagged]):
    """Evaluates tagging.

    Columns: `words` and `tags`. Whole entities are counted, as in seqeval; for parts of speech
    there is only the accuracy.
    """

    form = "conll"

    def __init__(self, model: Model, head: str | None = None) -> None:
        self.tagger = Tagger(model, head=head)

    def ask(self, record: Record) -> TaggedWords:
        words, tags = field(record, "words"), field(record, "tags")
        if not isinstance(words, list) or not isinstance(tags, list):
            raise DataError("words and tags must be lists")
        named = [label_of(tag, record) for tag in tags]
        self.tagger.check(words, named)
        return TaggedWords(words, named)

    def answers(self, inputs: Iterable[TaggedWords]) -> Iterator[Tagged | GlassformerError]:
        return self.tagger(one.words for one in inputs)

    def compute_metrics(
        self, inputs: Sequence[TaggedWords], answers: Sequence[Tagged], draws: Resamples
    ) -> dict[str, MetricWithCI]:
        pairs = [(answer.tags, one.tags) for answer, one in zip(answers, inputs, strict=True)]
        which = ENTITIES if self.tagger.marked else WORDS
        return bootstrap_sums(counted(pairs), which, draws)

    def classes(self, inputs: Sequence[TaggedWords], answers: Sequence[Tagged]) -> ScoreTable:
        found = report([answer.tags for answer in answers], [one.tags for one in inputs])
        return found.tokens if found.entities is None else found.entities


def counted(pairs: Sequence[tuple[list[str], list[str]]]) -> Numbers:
    """Returns the statistics of pairs of predicted and correct tags.

    Each word is one decision; the classes are the entity types.
    """
    sets = [(entities(found), entities(right)) for found, right in pairs]
    kinds = sorted({kind for found, right in sets for kind, _, _ in found | right})
    table = np.zeros((3, len(pairs), len(kinds)))
    for row, (found, right) in enumerate(sets):
        for counts, spans in zip(table, (found, right, found & right), strict=True):
            of_kind = Counter(kind for kind, _, _ in spans)
            counts[row] = [of_kind[kind] for kind in kinds]
    hits = [sum(a == b for a, b in zip(*pair, strict=True)) for pair in pairs]
    return statistics([len(right) for _, right in pairs], hits, *table)


class QuestionRecord(NamedTuple):
    """Question with its context and correct answers."""

    question: str
    context: str
    answers: list[str]


class QuestionAnsweringEvaluator(Evaluator[QuestionRecord, Answer]):
    """Evaluates extractive question answering.

    Columns: `question`, `context` and `answers`, as in SQuAD: objects with a text. A question
    without answers is unanswerable.
    """

    form = "squad"

    def __init__(self, model: Model, head: str | None = None) -> None:
        self.answerer = Answerer(model, head=head)

    def ask(self, record: Record) -> QuestionRecord:
        field(record, "answers")
        right = right_answers(record)
        return QuestionRecord(field(record, "question"), field(record, "context"), right)

    def answers(self, inputs: Iterable[QuestionRecord]) -> Iterator[Answer | GlassformerError]:
        return self.answerer((one.question, one.context) for one in inputs)

    def compute_metrics(
        self, inputs: Sequence[QuestionRecord], answers: Sequence[Answer], draws: Resamples
    ) -> dict[str, MetricWithCI]:
        pairs = [(answer.text, one.answers) for answer, one in zip(answers, inputs, strict=True)]
        return {
            "exact": draws.proportion([exact_match(*pair) for pair in pairs], scale=100),
            **bootstrap_means({"f1": [100 * word_f1(*pair) for pair in pairs]}, draws),
        }
