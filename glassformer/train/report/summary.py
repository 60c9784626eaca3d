"""Summary of a run from the files in its folder."""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.train.early_stopping import is_better
from glassformer.train.recipe import Recipe
from glassformer.train.report.about import About, read_about
from glassformer.train.reporter import Entry
from glassformer.train.run_folder import Run


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """Summary of a run from the files in its folder."""

    run: Run
    about: About | None  # None before the first step
    entries: Sequence[Entry]
    state: str  # finished, stopped early, running or unfinished

    @property
    def recipe(self) -> Recipe:
        return self.run.recipe

    @property
    def model(self) -> str:
        settings, adapter = self.recipe.model, self.recipe.adapter
        name = settings.preset or Path(str(settings.base)).name
        return name if adapter is None else f"{name} + {adapter.type}"

    @property
    def objective(self) -> str:
        return " + ".join(one.name for one in self.recipe.objective)

    @property
    def num_steps(self) -> int | None:
        """The number of steps of the whole run; None if it is given in epochs and not yet known."""
        known = None if self.about is None else self.about.steps
        return self.recipe.train.max_steps or known

    @property
    def last(self) -> Entry | None:
        """The last logged step."""
        steps = steps_of(self.entries)
        return steps[-1] if steps else None

    @property
    def tokens(self) -> int:
        return 0 if self.last is None else self.last["tokens"]

    @property
    def seconds(self) -> float:
        """Total time of the steps without evaluations, including all times the run was resumed."""
        before, total = 0, 0.0
        for entry in steps_of(self.entries):
            total += (entry["tokens"] - before) / max(entry["speed"]["tokens_per_second"], 1e-9)
            before = entry["tokens"]
        return total

    @property
    def tokens_per_second(self) -> float | None:
        return self.tokens / self.seconds if self.seconds else None

    def best(self, name: str | None = None) -> tuple[float, int] | None:
        """Returns the best value of a metric and its step.

        The metric is by default `train.metric_for_best_model`.
        """
        name = name or self.recipe.train.metric_for_best_model
        found: tuple[float, int] | None = None
        for entry in evaluations_of(self.entries):
            value = entry["valid"].get(name)
            if value is not None and is_better(name, value, found and found[0]):
                found = value, entry["step"]
        return found

    def tokens_at(self, step: int) -> float:
        """Returns the number of tokens read by a step, interpolated between logged steps."""
        steps = steps_of(self.entries)
        at, read = [entry["step"] for entry in steps], [entry["tokens"] for entry in steps]
        return float(np.interp(step, [0, *at], [0, *read]))

    def plain(self) -> dict[str, Any]:
        """Returns the summary as values for JSON."""
        best, about = self.best(), self.about
        return {
            "folder": str(self.run.folder),
            "model": self.model,
            "architecture": about and about.architecture,
            "parameters": about and about.parameters,
            "body": about and about.body,
            "objective": self.objective,
            "step": self.last["step"] if self.last else 0,
            "steps": self.num_steps,
            "tokens": self.tokens,
            "best": None if best is None else best[0],
            "best_name": self.recipe.train.metric_for_best_model,
            "best_step": None if best is None else best[1],
            "loss": self.last and self.last["loss"],
            "tokens_per_second": self.tokens_per_second,
            "seconds": self.seconds,
            "state": self.state,
        }


def summarize(run: Run) -> RunSummary:
    """Returns the summary of a run."""
    return RunSummary(
        run=run, about=read_about(run.folder), entries=run.entries(), state=_state(run)
    )


def steps_of(entries: Sequence[Entry]) -> list[Entry]:
    """Returns the entries of training steps."""
    return [entry for entry in entries if "loss" in entry]


def evaluations_of(entries: Sequence[Entry]) -> list[Entry]:
    """Returns the entries of evaluations."""
    return [entry for entry in entries if "valid" in entry]


def _state(run: Run) -> str:
    how = run.finished
    if how is not None:
        return "stopped early" if how["stopped"] else "finished"
    return "running" if _is_locked(run.folder / ".lock") else "unfinished"


def _is_locked(path: Path) -> bool:
    """Returns whether a process is training in the folder and so holds its lock."""
    if not path.exists():
        return False
    with path.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
