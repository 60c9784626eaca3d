"""The run folder: its layout, and the class `Run`.

recipe.toml     the recipe with all defaults filled in (recipe.json if tomli-w is not installed)
metrics.jsonl   one line for each logged step and each evaluation
state/          the last checkpoint, from which the run resumes
model/          the model in the published layout, when the run is finished
best/           the same, at the best evaluation
steps/          the same, every run.snapshot_steps steps and after the steps in run.snapshots
tokenizer/      the tokenizer that was trained on the data
about.json      facts about the model, the data and the machine that the recipe does not contain
inputs.json     fingerprints of the files that the run reads: it resumes only with the same
data_summary.json  rows, labels and truncated texts of every split
plots/          plots of loss, learning rate and gradient norm
events.*        the same values for TensorBoard
README.md       the model card, when the run is finished
run.json        the files that the run has written: no other file is replaced or removed
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.errors import LoadError
from glassformer.loading import load
from glassformer.model import Model
from glassformer.storage.files import open_plain, write_synced
from glassformer.storage.parsing import has_form, parse_json
from glassformer.train.checkpointing import checkpoints, step_number
from glassformer.train.data_summary import FILE as SUMMARY
from glassformer.train.data_summary import DataSummary
from glassformer.train.early_stopping import is_better
from glassformer.train.manifest import Manifest
from glassformer.train.recipe import Recipe
from glassformer.train.reporter import Entry
from glassformer.train.run_records import EVALUATION, FINISHED, LOGGED_STEP, read_record


@dataclass(frozen=True, repr=False)
class Run:
    """A run folder with its recipe."""

    folder: Path
    recipe: Recipe
    files: Manifest | None = field(default=None, repr=False, compare=False)  # set in training

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def best(self) -> Path:
        return self.folder / "best"

    @property
    def steps(self) -> Path:
        return self.folder / "steps"

    @property
    def tokenizer(self) -> Path:
        return self.folder / "tokenizer"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def metrics_file(self) -> Path:
        return self.folder / "metrics.jsonl"

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the best evaluation; empty if nothing was evaluated."""
        found: dict[str, float] = {}
        best: float | None = None
        name = self.recipe.train.metric_for_best_model
        for entry in self.entries():
            value = entry.get("valid", {}).get(name)
            if value is not None and is_better(name, value, best):
                best, found = value, entry["valid"]
        return found

    def load(self, **options: Any) -> Model:
        """Loads the model that the run has published, with options of `gf.load`."""
        return load(self.folder, **options)

    def __repr__(self) -> str:
        state = "unfinished" if self.finished is None else "finished"
        found = "".join(f", {name} {value:.4f}" for name, value in self.metrics.items())
        return f"<Run {self.folder}: {state} at step {self.step:,}{found}>"

    @property
    def is_begun(self) -> bool:
        return bool(checkpoints(self.state))

    @property
    def step(self) -> int:
        """Step of the last checkpoint; 0 if there is none."""
        saved = checkpoints(self.state)
        return step_number(saved[-1]) if saved else 0

    @property
    def finished(self) -> dict[str, Any] | None:
        """Summary of how the run ended; None while it is unfinished."""
        path = self.folder / "finished.json"
        return read_record(path, FINISHED) if path.exists() else None

    @property
    def data_summary(self) -> DataSummary | None:
        """Rows, labels and truncated texts of the data; None before the first step."""
        path = self.folder / SUMMARY
        return DataSummary.read(path) if path.exists() else None

    @property
    def manifest(self) -> Manifest:
        assert self.files is not None, "a run that is only read writes nothing"
        return self.files

    def finish(self, how: Mapping[str, Any]) -> None:
        self.manifest.write("finished.json", json.dumps(how, indent=2) + "\n")

    def reopen(self) -> None:
        """Takes back that the run is finished, because it gets more steps."""
        self.manifest.remove("finished.json")

    def replacing(self, folder: Path) -> AbstractContextManager[Path]:
        """Yields a path at which to write a folder of the run, and renames it on exit."""
        return self.manifest.replacing(folder.relative_to(self.folder).as_posix())

    def adding(self, *patterns: str) -> AbstractContextManager[None]:
        """Lists files that appear under these names or inside these folders as files of the run."""
        return self.manifest.adding(*patterns)

    def entries(self) -> list[Entry]:
        """Returns the complete lines of metrics.jsonl."""
        if not self.metrics_file.exists():
            return []
        lines = self.metrics_file.read_bytes().split(b"\n")
        found = []
        for number, line in enumerate(lines[:-1], 1):
            try:
                entry = parse_json(line)
            except ValueError:
                entry = None
            logged = isinstance(entry, dict) and "loss" in entry
            if not has_form(entry, LOGGED_STEP if logged else EVALUATION):
                raise LoadError(
                    f"{self.metrics_file} is damaged: line {number} is not a log entry; remove "
                    "that line."
                )
            found.append(entry)
        return found

    def cut(self, step: int) -> None:
        """Removes the log entries after a step, from which the run resumes."""
        kept = [line for line in self.entries() if line["step"] <= step]
        draft = self.manifest.draft(self.metrics_file.name)
        write_synced(draft, "".join(map(_line, kept)))
        self.manifest.install(draft, self.metrics_file.name)

    def log(self, entry: Entry) -> None:
        self.manifest.claim(self.metrics_file.name)
        with open_plain(self.metrics_file, "a") as stream:
            stream.write(_line(entry).encode("utf-8"))

    def sync(self) -> None:
        """Writes the log to disk, before a checkpoint that relies on it is saved."""
        if self.metrics_file.exists():
            with self.metrics_file.open("rb") as stream:
                os.fsync(stream.fileno())


class NonMainRun(Run):
    """The run as seen by the processes other than the main one: nothing is written."""

    def finish(self, how: Mapping[str, Any]) -> None: ...
    def reopen(self) -> None: ...
    def adding(self, *patterns: str) -> AbstractContextManager[None]:
        return nullcontext()

    def cut(self, step: int) -> None: ...
    def log(self, entry: Entry) -> None: ...
    def sync(self) -> None: ...


def non_main_run(recipe: Recipe) -> Run:
    """Returns a run that the main process has opened."""
    folder = Path(recipe.run.out)
    return NonMainRun(folder, recipe, Manifest.read(folder))


def _line(entry: Entry) -> str:
    return json.dumps(_finite(entry), ensure_ascii=False) + "\n"


def _finite(value: Any) -> Any:
    """Replaces numbers that are not finite by None, because JSON cannot represent them."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
