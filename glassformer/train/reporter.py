"""The command line's bar, plots, cards, TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.train.estimate import RunEstimate
    from glassformer.train.run_folder import Run

Entry = dict[str, Any]  # a line of metrics.jsonl


class Reporter:
    """Each is told what happens, and may do nothing about it."""

    def prepare(self, what: str, done: int, total: int | None) -> None:
        """Before training: what is being done, how far it is, and how much there is if known."""

    def note(self, text: str) -> None:
        """Something that deserves a line."""

    def begin(self, run: Run, plan: RunEstimate) -> None:
        """The first step comes next, or the one behind the last checkpoint."""

    def step(self, entry: Entry) -> None:
        """A step that is logged."""

    def valid(self, entry: Entry) -> None:
        """An evaluation."""

    def save(self) -> None:
        """A checkpoint is on the disk."""

    def finish(self, how: Mapping[str, Any]) -> None:
        """All is done and the model is there: how it ended, which is written down next."""

    def end(self) -> None:
        """The run is over, for now or for good."""
