"""Logging to Weights & Biases."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any

from glassformer.errors import UnsupportedError
from glassformer.train.report.logged import is_installed, metrics_of
from glassformer.train.reporter import Entry, Reporter

if TYPE_CHECKING:
    from glassformer.train.estimate import RunEstimate
    from glassformer.train.run_folder import Run


class Wandb(Reporter):
    """Logs to a W&B project.

    A resumed run continues the same W&B run, whose id is kept in the run folder. Repeated steps are
    bit-identical and are not logged twice.
    """

    def __init__(self, project: str) -> None:
        if not is_installed("wandb"):
            raise UnsupportedError(
                f"run.wandb = {project!r} needs Weights & Biases: pip install "
                "'glassformer[wandb]', or leave it out."
            )
        self._project = project
        self._there: Any = None
        self._files = ExitStack()

    def begin(self, run: Run, plan: RunEstimate) -> None:
        self._files.enter_context(run.adding("wandb"))
        kept = run.folder / "wandb" / "id"
        if not kept.exists():
            run.manifest.write("wandb/id", secrets.token_hex(8))
        self._there = import_module("wandb").init(
            project=self._project,
            id=kept.read_text("utf-8"),
            name=run.folder.name,
            dir=str(run.folder),
            resume="allow",
            config=run.recipe.tables(),
        )

    def step(self, entry: Entry) -> None:
        self._log(entry)

    def valid(self, entry: Entry) -> None:
        self._log(entry)

    def end(self) -> None:
        if self._there is not None:
            self._there.finish()
        self._files.close()

    def _log(self, entry: Entry) -> None:
        if entry["step"] >= self._there.step:
            self._there.log(metrics_of(entry), step=entry["step"])
