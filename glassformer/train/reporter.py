"""The interface of reporters: the progress bar, plots, model cards and TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.train.data_summary import DataSummary
    from glassformer.train.estimate import RunEstimate
    from glassformer.train.run_folder import Run

Entry = dict[str, Any]  # a line of metrics.jsonl


class Reporter:
    """Base class with callbacks for the events of a run; each does nothing by default."""

    def prepare(self, what: str, done: int, total: int | None) -> None:
        """Called during preparation with the activity, its progress and its total, if known."""

    def note(self, text: str) -> None:
        """Called with a message to print."""

    def data(self, summary: DataSummary) -> None:
        """Called when the data is prepared, before the first step."""

    def begin(self, run: Run, plan: RunEstimate) -> None:
        """Called before the first step, or the first step after the checkpoint that is resumed."""

    def step(self, entry: Entry) -> None:
        """Called after a logged step."""

    def valid(self, entry: Entry) -> None:
        """Called after an evaluation."""

    def save(self) -> None:
        """Called after a checkpoint was written."""

    def finish(self, how: Mapping[str, Any]) -> None:
        """Called when training is complete and the model is saved, with the summary of the run.

        The summary is written to finished.json afterward.
        """

    def end(self) -> None:
        """Called when the run ends, completed or interrupted."""
