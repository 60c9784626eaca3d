"""TensorBoard event files in the run folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from glassformer.errors import UnsupportedError
from glassformer.train.recipe import RunSettings
from glassformer.train.report.logged import is_installed, metrics_of
from glassformer.train.reporter import Entry, Reporter

if TYPE_CHECKING:
    from glassformer.train.estimate import RunEstimate
    from glassformer.train.run_folder import Run


def is_wanted(settings: RunSettings) -> bool:
    """Returns whether to write events; by default if TensorBoard is installed."""
    installed = is_installed("tensorboard")
    if settings.tensorboard and not installed:
        raise UnsupportedError(
            "run.tensorboard = true needs TensorBoard: pip install 'glassformer[tensorboard]', or "
            "leave it out."
        )
    return installed if settings.tensorboard is None else settings.tensorboard


class TensorBoard(Reporter):
    """Writes event files; a resumed run purges the events after its checkpoint."""

    def __init__(self) -> None:
        self._writer: Any = None

    def begin(self, run: Run, plan: RunEstimate) -> None:
        events = import_module("torch.utils.tensorboard")
        older = list(run.folder.glob("events.out.tfevents.*"))
        again = bool(older)
        while any(f".{int(time.time())}." in path.name for path in older):
            time.sleep(0.05)  # files are read in the order of the seconds in their names
        with run.adding("events.out.tfevents.*"):
            self._writer = events.SummaryWriter(
                str(run.folder), purge_step=run.step + 1 if again else None
            )
        if not again:
            recipe = "".join(f"    {line}\n" for line in run.recipe.text(run.folder).splitlines())
            self._writer.add_text("recipe", recipe, 0)
            self._writer.flush()

    def step(self, entry: Entry) -> None:
        self._add(entry)

    def valid(self, entry: Entry) -> None:
        self._add(entry)

    def save(self) -> None:
        self._writer.flush()

    def finish(self, how: Mapping[str, Any]) -> None:
        self._writer.flush()

    def end(self) -> None:
        """Closes the writer.

        Write errors are ignored, so that they do not hide why the run ended.
        """
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()

    def _add(self, entry: Entry) -> None:
        for name, value in metrics_of(entry).items():
            self._writer.add_scalar(name, value, entry["step"])
