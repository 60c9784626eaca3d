"""The result of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.metrics.bootstrap import MetricWithCI
from glassformer.metrics.report_table import ScoreTable


@dataclass(frozen=True)
class GroupMetrics:
    """The metrics of some of the records, such as those of one speaker."""

    records: int
    metrics: dict[str, MetricWithCI]

    def record(self) -> dict[str, Any]:
        found = {name: metric.record() for name, metric in self.metrics.items()}
        return {"records": self.records, "metrics": found}


@dataclass(frozen=True)
class Evaluation:
    """Result of an evaluation.

    Attributes:
        task: Name of the task.
        records: Number of evaluated records.
        metrics: Metrics by name.
        classes: Precision, recall and F1 of each class, if there are classes.
        speakers: The metrics of each speaker, if the records name them.
        skipped: What was wrong with each record that was skipped.
    """

    task: str
    records: int
    metrics: dict[str, MetricWithCI]
    classes: ScoreTable | None = None
    skipped: tuple[str, ...] = ()
    speakers: Mapping[str, GroupMetrics] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return self.metrics[name].value

    def record(self) -> dict[str, Any]:
        """Returns the result as a dict for JSON."""
        speakers = {name: one.record() for name, one in self.speakers.items()}
        return {
            "task": self.task,
            "records": self.records,
            "metrics": {name: metric.record() for name, metric in self.metrics.items()},
            "classes": None if self.classes is None else self.classes.record(),
            "skipped": list(self.skipped),
            **({"speakers": speakers} if speakers else {}),
        }
