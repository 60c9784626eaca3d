"""What judging a model by a task takes, whatever the task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

from glassformer.errors import GlassformerError
from glassformer.metrics.bootstrap import MetricWithCI, Resamples
from glassformer.metrics.report_table import ScoreTable
from glassformer.train.objectives.objective import Record

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Evaluation:
    """`figures` by their names; `classes` with precision, recall and F1 of each, where there are
    some. `skipped` says what was wrong with records that were left out."""

    task: str
    records: int
    figures: dict[str, MetricWithCI]
    classes: ScoreTable | None = None
    skipped: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> float:
        return self.figures[name].value

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "task": self.task,
            "records": self.records,
            "figures": {name: figure.record() for name, figure in self.figures.items()},
            "classes": None if self.classes is None else self.classes.record(),
            "skipped": list(self.skipped),
        }


class Evaluator(ABC, Generic[Asked, Answer]):
    """`ask` makes of a record what the model is asked, and raises what is wrong with it; `answers`
    come in the order of the questions, an error in the place of one that cannot be answered."""

    form = "jsonl"  # of files whose ending does not tell

    def records(self, record: Record) -> Iterable[Record]:
        """What a record of a file holds: mostly itself."""
        return [record]

    @abstractmethod
    def ask(self, record: Record) -> Asked: ...

    @abstractmethod
    def answers(self, asked: Iterable[Asked]) -> Iterator[Answer | GlassformerError]: ...

    @abstractmethod
    def figures(
        self, asked: Sequence[Asked], answers: Sequence[Answer], draws: Resamples
    ) -> dict[str, MetricWithCI]: ...

    def classes(self, asked: Sequence[Asked], answers: Sequence[Answer]) -> ScoreTable | None:
        return None


def field(record: Record, name: str) -> Any:
    if name not in record:
        there = ", ".join(key for key in record if key != "where") or "none"
        raise GlassformerError(f"there is no column {name!r}, only {there}")
    return record[name]


def near(name: str, known: Sequence[str], most: int = 20) -> str:
    """What could have been meant instead, to go on after "... is none of them"."""
    found = get_close_matches(name, known, 1)
    hint = f" (did you mean {found[0]!r}?)" if found else ""
    return f"{hint}: {', '.join(known[:most])}{', ...' if len(known) > most else ''}"
