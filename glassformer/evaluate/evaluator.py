"""Base class of evaluators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

from glassformer.data.record import Record
from glassformer.errors import DataError, GlassformerError
from glassformer.metrics.bootstrap import MetricWithCI, Resamples
from glassformer.metrics.evaluation import GroupMetrics
from glassformer.metrics.report_table import ScoreTable

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Evaluator(ABC, Generic[Question, Answer]):
    """Base class of evaluators, one for each task.

    `ask` turns a record into the model's input and raises an error if the record is invalid.
    `answers` yields the model's answers in the order of the inputs, and an error in place of an
    answer that is not possible. `compute_metrics` computes the metrics.
    """

    form = "jsonl"  # format of files whose suffix does not determine it

    def records(self, record: Record) -> Iterable[Record]:
        """Splits a record of a file into records to evaluate; by default one."""
        return [record]

    @abstractmethod
    def ask(self, record: Record) -> Question: ...

    @abstractmethod
    def answers(self, inputs: Iterable[Question]) -> Iterator[Answer | GlassformerError]: ...

    @abstractmethod
    def compute_metrics(
        self, inputs: Sequence[Question], answers: Sequence[Answer], draws: Resamples
    ) -> dict[str, MetricWithCI]: ...

    def classes(self, inputs: Sequence[Question], answers: Sequence[Answer]) -> ScoreTable | None:
        return None

    def speakers(
        self, inputs: Sequence[Question], answers: Sequence[Answer], draws: Resamples
    ) -> dict[str, GroupMetrics]:
        return {}


def field(record: Record, name: str) -> Any:
    """Returns a column of a record, or raises an error that names the existing columns."""
    if name not in record:
        there = ", ".join(key for key in record if key != "where") or "none"
        raise DataError(f"there is no column {name!r}, only {there}")
    return record[name]


def near(name: str, known: Sequence[str], most: int = 20) -> str:
    """Returns a hint with similar names, to complete an error message."""
    found = get_close_matches(name, known, 1, cutoff=0.7)
    hint = f" (did you mean {found[0]!r}?)" if found else ""
    return f"{hint}: {', '.join(known[:most])}{', ...' if len(known) > most else ''}"
