"""The run folder: its layout, opening it, and resuming a run.

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

import fcntl
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError, GlassformerError, LoadError
from glassformer.loading import load
from glassformer.model import Model
from glassformer.storage.files import is_utf8, open_plain, write_synced
from glassformer.storage.fingerprints import Progress
from glassformer.storage.parsing import has_form, parse_json
from glassformer.text.loading.load import holds_tokenizer
from glassformer.train.checkpointing import checkpoints, step_number
from glassformer.train.data_summary import FILE as SUMMARY
from glassformer.train.data_summary import DataSummary
from glassformer.train.early_stopping import is_better
from glassformer.train.inputs import FILE as INPUTS
from glassformer.train.inputs import RunInputs, read_inputs
from glassformer.train.manifest import DRAFT, MANIFEST, Manifest
from glassformer.train.recipe import FREE, FREE_KEYS, Recipe, differences, flatten
from glassformer.train.recipe_text import recipe_format
from glassformer.train.reporter import Entry
from glassformer.train.run_folder_v01 import files_of_older_run
from glassformer.train.run_records import EVALUATION, FINISHED, LOGGED_STEP, read_record
from glassformer.train.stored_recipe import read_stored_recipe
from glassformer.weights.folder_kind import RECIPES, recipe_of

LOCK = ".lock"
LENGTH = ("train.epochs:", "train.max_steps:")  # what may differ when a run is extended
FILES = ("metrics.jsonl", "about.json", "README.md", SUMMARY, INPUTS)
NO_CONTENT = (".DS_Store", ".gitignore", ".gitkeep", "lost+found")
"""A folder that contains only these is considered empty; a run never writes them."""


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


@contextmanager
def open_run(
    recipe: Recipe,
    *,
    restart: bool = False,
    extend: bool = False,
    progress: Progress | None = None,
) -> Iterator[Run]:
    """Opens a new or existing run and locks its folder against other processes.

    A new run that fails before its first step leaves nothing behind.

    Args:
        recipe: The complete recipe; `run.out` is the folder to open.
        restart: Whether to remove the files of an earlier run first.
        extend: Whether the recipe is that of an existing run with more steps or epochs.
        progress: Called with the bytes of the inputs that are checked and the total.
    """
    folder = Path(recipe.run.out)
    if not is_utf8(recipe.run.out):
        raise ConfigError(f"run.out is {folder}, which is not UTF-8; name another folder.")
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_folder(folder)  # before anything is written
        with open_plain(folder / LOCK, "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LoadError(
                    f"Another process is training in {folder}; wait for it, or name another "
                    "run.out."
                ) from None
            _check_folder(folder)
            manifest, fresh = Manifest.read(folder), False
            if manifest is None:
                older = files_of_older_run(folder)
                fresh = not older
                manifest = Manifest.create(folder, older, adopted=bool(older))
            run = Run(folder, recipe, manifest)
            manifest.open()
            _check_inputs(run)
            try:
                manifest.check(*RECIPES, "finished.json")
                if restart:
                    _clear(run)
                _compare(run, extend)
                _compare_inputs(run, progress)
                if run.finished is None or extend:
                    manifest.check(*FILES)
                    if holds_tokenizer(run.tokenizer):  # it would be loaded
                        manifest.check(run.tokenizer.name)
                    manifest.check_texts()
                    _write_recipe(run)
                yield run
            except GlassformerError:
                if fresh and not run.is_begun and not run.metrics_file.exists():
                    _withdraw(run, made)
                raise
            finally:
                manifest.close()
    except GlassformerError:  # a LoadError is an OSError
        raise
    except OSError as error:
        where = os.fsdecode(error.filename or folder)
        run = Run(folder, recipe)
        then = (
            f"the last checkpoint in {run.state} is whole. Make room or get permission, and the "
            "same command resumes from it."
            if run.is_begun
            else "make room, get permission, or name another run.out."
        )
        raise LoadError(f"{where} cannot be written ({error.strerror or error}); {then}") from None


def _withdraw(run: Run, made: Sequence[Path]) -> None:
    """Removes what a run has written that failed before its first step, and its new folders."""
    run.manifest.clear()
    run.manifest.close()
    for name in (MANIFEST, LOCK):
        (run.folder / name).unlink(missing_ok=True)
    for name in ("data", "tokenizer"):  # made before a file in them was listed
        with suppress(OSError):
            (run.folder / name).rmdir()
    with suppress(OSError):  # stops at a folder in which another file lies
        for folder in made:
            folder.rmdir()


def _check_folder(folder: Path) -> None:
    """Raises an error if the folder is neither empty nor a run folder."""
    if Manifest.read(folder) is not None or files_of_older_run(folder):
        return
    stopped = {LOCK, DRAFT}  # left by a start that was killed before the manifest was renamed
    others = sorted({path.name for path in folder.iterdir()} - stopped - {*NO_CONTENT})
    if others:
        raise ConfigError(
            f"{folder} contains {others[0]!r}, which no {MANIFEST} of a run lists; a run needs a "
            f"new or empty folder, for example run.out={free_folder(folder)}."
        )


def free_folder(folder: Path) -> Path:
    """Returns the path of a folder that does not exist, next to this one.

    If this is the working directory or one of its parents, the path lies inside it.
    """
    resolved = folder.resolve()
    around = Path.cwd().is_relative_to(resolved)
    first = folder / "runs" / (resolved.name or "run") if around else folder
    tries = (first.with_name(f"{first.name}-{number}") for number in count(2))
    return next(path for path in (first, *islice(tries, 1000)) if not os.path.lexists(path))


def _clear(run: Run) -> None:
    if run.manifest.adopted:
        raise ConfigError(
            f"{run.folder} has a run of an older version, which did not list its files, so they "
            "cannot be distinguished from yours; move what you need and delete the folder, or "
            f"name another one, for example run.out={free_folder(run.folder)}."
        )
    run.manifest.clear()


def _check_inputs(run: Run) -> None:
    """Raises an error if the recipe reads a file that its run writes."""
    own = run.folder.resolve()
    for key, value in flatten(run.recipe.tables()).items():
        if key.split(".")[0] in FREE or key in FREE_KEYS:
            continue
        for word in value if isinstance(value, list) else [value]:
            path = Path(os.path.realpath(word)) if isinstance(word, str) and word else None
            if path is None or not path.is_relative_to(own):
                continue
            name = path.relative_to(own).as_posix()
            if run.manifest.owns(name):
                raise ConfigError(
                    f"{key} is {word}, which the run in {run.folder} has written itself and would "
                    f"replace; name another folder, for example "
                    f"run.out={free_folder(run.folder)}."
                )


def _write_recipe(run: Run) -> None:
    name = f"recipe.{recipe_format()}"
    text = run.recipe.text(run.folder)
    if not is_utf8(text):
        raise ConfigError(
            f"A path in the recipe is not UTF-8, so {name} cannot name it; rename it."
        )
    run.manifest.write(name, text)
    for other in RECIPES:
        if other != name:  # tomli-w was installed or removed since the run was begun
            run.manifest.remove(other)


def _compare(run: Run, extend: bool) -> None:
    path = recipe_of(run.folder)
    if path is None or not run.manifest.owns(
        path.name
    ):  # a run that was killed before the recipe was written
        return
    run.manifest.check_text(path.name)
    changed = differences(read_stored_recipe(path), run.recipe)
    if extend:
        changed = [one for one in changed if not one.startswith(LENGTH)]
    if changed and not run.is_begun and run.finished is None:  # no checkpoint yet
        _clear(run)
    elif changed:
        raise ConfigError(
            f"{run.folder} has a run of another recipe ({'; '.join(changed)}); name another "
            "run.out, or start again with --restart."
        )


def _compare_inputs(run: Run, progress: Progress | None) -> None:
    """Stores the fingerprints of a new run's inputs; an older run needs the same inputs."""
    inputs, finished = RunInputs(run.recipe, run.folder), run.finished is not None
    if run.manifest.owns(INPUTS):
        run.manifest.check_text(INPUTS)
        before = read_inputs(run.folder / INPUTS)
        changed = inputs.changed(before, missing=not finished, progress=progress)
        if changed is None:
            return
        if run.is_begun or finished:
            raise DataError(changed)
        _clear(run)  # no checkpoint yet
    elif run.is_begun or finished:  # of an older version
        return
    run.manifest.write(INPUTS, json.dumps(inputs.fingerprints(progress), indent=1) + "\n")


def _line(entry: Entry) -> str:
    return json.dumps(_finite(entry), ensure_ascii=False) + "\n"


def _finite(value: Any) -> Any:
    """Replaces numbers that are not finite by None, because JSON cannot represent them."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
