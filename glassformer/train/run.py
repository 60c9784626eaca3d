"""Train room, the run folder: what a run leaves behind, and how it is found again.

recipe.toml     the recipe with everything filled in
metrics.jsonl   a line for every logged step and every evaluation
state/          the last checkpoint, from which the run goes on
model/          the model in the published layout, when the run is over
best/           the same, at the best evaluation
steps/          the same, after every so many steps (run.keep_every), and after some (run.keep)
tokenizer/      the one that was learned from the data
about.json      of the model, the data and the machine what the recipe does not say
plots/          loss, learning rate and gradient as pictures
events.*        the same for TensorBoard
README.md       the model's card, when the run is over
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.errors import GlassformerError
from glassformer.storage.files import write_synced
from glassformer.train.recipe import Recipe, differences, read_recipe
from glassformer.train.reporter import Entry
from glassformer.train.state import checkpoints, step_of

OURS = ("state", "model", "best", "steps", "tokenizer", "data", "plots", "wandb")
OUR_FILES = (
    "metrics.jsonl",
    "about.json",
    "README.md",
    "finished.json",
    "events.*",
    "recipe.toml",
)


@dataclass(frozen=True)
class Run:
    folder: Path
    recipe: Recipe

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
    def metrics(self) -> Path:
        return self.folder / "metrics.jsonl"

    @property
    def is_begun(self) -> bool:
        return bool(checkpoints(self.state))

    @property
    def step(self) -> int:
        """Of the last checkpoint: so many are done."""
        saved = checkpoints(self.state)
        return step_of(saved[-1]) if saved else 0

    @property
    def finished(self) -> dict[str, Any] | None:
        """How it ended; None while there is something left to do."""
        path = self.folder / "finished.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else None

    def finish(self, how: Mapping[str, Any]) -> None:
        draft = self.folder / "finished.json.draft"
        write_synced(draft, json.dumps(how, indent=2) + "\n")
        draft.replace(self.folder / "finished.json")

    def entries(self) -> list[Entry]:
        """The lines of metrics.jsonl that are whole."""
        if not self.metrics.exists():
            return []
        lines = self.metrics.read_text("utf-8").split("\n")
        try:
            return [json.loads(line) for line in lines[:-1]]
        except ValueError:
            raise GlassformerError(
                f"{self.metrics} is damaged: a line is not JSON; take that line out."
            ) from None

    def cut(self, step: int) -> None:
        """Forgets what was logged after a step: the run goes on from there."""
        kept = [line for line in self.entries() if line["step"] <= step]
        draft = self.metrics.with_suffix(".draft")
        write_synced(draft, "".join(map(_line, kept)))
        draft.replace(self.metrics)

    def log(self, entry: Entry) -> None:
        with self.metrics.open("a", encoding="utf-8") as stream:
            stream.write(_line(entry))

    def sync(self) -> None:
        """What was logged is on the disk before the checkpoint is that counts on it."""
        if self.metrics.exists():
            with self.metrics.open("rb") as stream:
                os.fsync(stream.fileno())


class Onlooker(Run):
    """A run as the processes see it that only help: it is written by another."""

    def finish(self, how: Mapping[str, Any]) -> None: ...
    def cut(self, step: int) -> None: ...
    def log(self, entry: Entry) -> None: ...
    def sync(self) -> None: ...


@contextmanager
def open_run(recipe: Recipe, *, restart: bool = False) -> Iterator[Run]:
    """The run of a recipe: a new one, or one to go on with. Nobody else may train in the folder
    meanwhile."""
    run = Run(Path(recipe.run.folder), recipe)
    try:
        run.folder.mkdir(parents=True, exist_ok=True)
        with (run.folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise GlassformerError(
                    f"Another process is training in {run.folder}; wait for it, or name another "
                    "run.folder."
                ) from None
            if restart:
                clear(run.folder)
            _compare(run)
            write_synced(run.folder / "recipe.draft", recipe.toml())
            (run.folder / "recipe.draft").replace(run.folder / "recipe.toml")
            yield run
    except OSError as error:
        where = os.fsdecode(error.filename or run.folder)
        then = (
            f"the last checkpoint in {run.state} is whole. Make room or get permission, and the "
            "same command goes on from it."
            if run.is_begun
            else "make room, get permission, or name another run.folder."
        )
        raise GlassformerError(
            f"{where} cannot be written ({error.strerror or error}); {then}"
        ) from None


def clear(folder: Path) -> None:
    """Takes away what a run has left, and nothing else that is in the folder."""
    for name in OURS:
        shutil.rmtree(folder / name, ignore_errors=True)
    for pattern in OUR_FILES:
        for path in folder.glob(pattern):
            path.unlink()


def _compare(run: Run) -> None:
    path = run.folder / "recipe.toml"
    if not path.exists():
        foreign = [name for name in OURS if (run.folder / name).exists()]
        if foreign:
            raise GlassformerError(
                f"{run.folder} holds {foreign[0]!r}, and no recipe.toml says of what run; name "
                "another run.folder."
            )
        return
    changed = differences(read_recipe(path), run.recipe)
    if changed and not run.is_begun and run.finished is None:  # nothing was learned yet
        clear(run.folder)
    elif changed:
        raise GlassformerError(
            f"{run.folder} holds a run of another recipe ({'; '.join(changed)}); name another "
            "run.folder, or --restart begins anew."
        )


def _line(entry: Entry) -> str:
    return json.dumps(_finite(entry), ensure_ascii=False) + "\n"


def _finite(value: Any) -> Any:
    """JSON has no infinite numbers."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
