"""What a run leaves behind, and how it is found again.

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
run.json        which of these files the run has written: no other file is replaced or removed
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any

from glassformer.errors import GlassformerError
from glassformer.storage.files import write_synced
from glassformer.text.loading.load import holds_tokenizer
from glassformer.train.manifest import DRAFT, MANIFEST, Manifest
from glassformer.train.recipe import FREE, FREE_KEYS, Recipe, differences, flat, read_recipe
from glassformer.train.reporter import Entry
from glassformer.train.run_folder_v01 import files_of_older_run
from glassformer.train.state import checkpoints, step_of

LOCK = ".lock"
FILES = ("metrics.jsonl", "about.json", "README.md")
NO_CONTENT = (".DS_Store", ".gitignore", ".gitkeep", "lost+found")
"""A folder with nothing else is empty: a run never writes these."""


@dataclass(frozen=True)
class Run:
    folder: Path
    recipe: Recipe
    files: Manifest | None = field(default=None, repr=False, compare=False)  # of one that trains

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

    @property
    def manifest(self) -> Manifest:
        assert self.files is not None, "a run that is only read writes nothing"
        return self.files

    def finish(self, how: Mapping[str, Any]) -> None:
        self.manifest.write("finished.json", json.dumps(how, indent=2) + "\n")

    def replacing(self, folder: Path) -> AbstractContextManager[Path]:
        """A place to write a folder of the run to, which then gets its name."""
        return self.manifest.replacing(folder.relative_to(self.folder).as_posix())

    def adding(self, *patterns: str) -> AbstractContextManager[None]:
        """What appears inside under these names, or within these folders, is the run's."""
        return self.manifest.adding(*patterns)

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
        draft = self.manifest.draft(self.metrics.name)
        write_synced(draft, "".join(map(_line, kept)))
        self.manifest.install(draft, self.metrics.name)

    def log(self, entry: Entry) -> None:
        self.manifest.claim(self.metrics.name)
        with self.metrics.open("a", encoding="utf-8") as stream:
            stream.write(_line(entry))

    def sync(self) -> None:
        """What was logged is on the disk before the checkpoint is that counts on it."""
        if self.metrics.exists():
            with self.metrics.open("rb") as stream:
                os.fsync(stream.fileno())


class NonMainRun(Run):
    """A run as the processes see it that only help: it is written by another."""

    def finish(self, how: Mapping[str, Any]) -> None: ...
    def adding(self, *patterns: str) -> AbstractContextManager[None]:
        return nullcontext()

    def cut(self, step: int) -> None: ...
    def log(self, entry: Entry) -> None: ...
    def sync(self) -> None: ...


def onlooker(recipe: Recipe) -> Run:
    """Of a run that another process has opened."""
    folder = Path(recipe.run.folder)
    return NonMainRun(folder, recipe, Manifest.read(folder))


@contextmanager
def open_run(recipe: Recipe, *, restart: bool = False) -> Iterator[Run]:
    """The run of a recipe: a new one, or one to go on with. Nobody else may train in the folder
    meanwhile."""
    folder = Path(recipe.run.folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_folder(folder)  # before anything is written to it
        with (folder / LOCK).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise GlassformerError(
                    f"Another process is training in {folder}; wait for it, or name another "
                    "run.folder."
                ) from None
            _check_folder(folder)
            older = files_of_older_run(folder)
            manifest = Manifest.read(folder) or Manifest.create(folder, older, adopted=bool(older))
            run = Run(folder, recipe, manifest)
            manifest.open()
            _check_inputs(run)
            try:
                manifest.check("recipe.toml", "finished.json")
                if restart:
                    _clear(run)
                _compare(run)
                if run.finished is None:
                    manifest.check(*FILES)
                    if holds_tokenizer(run.tokenizer):  # which would be used
                        manifest.check(run.tokenizer.name)
                    manifest.check_texts()
                    manifest.write("recipe.toml", recipe.toml())
                yield run
            finally:
                manifest.close()
    except OSError as error:
        where = os.fsdecode(error.filename or folder)
        run = Run(folder, recipe)
        then = (
            f"the last checkpoint in {run.state} is whole. Make room or get permission, and the "
            "same command goes on from it."
            if run.is_begun
            else "make room, get permission, or name another run.folder."
        )
        raise GlassformerError(
            f"{where} cannot be written ({error.strerror or error}); {then}"
        ) from None


def _check_folder(folder: Path) -> None:
    """It holds a run, or is empty: a folder of the user is refused."""
    if Manifest.read(folder) is not None or files_of_older_run(folder):
        return
    stopped = {LOCK, DRAFT}  # a start that was killed before the manifest had its name
    others = sorted({path.name for path in folder.iterdir()} - stopped - {*NO_CONTENT})
    if others:
        raise GlassformerError(
            f"{folder} holds {others[0]!r}, which no {MANIFEST} of a run lists; a run begins in a "
            f"new or empty folder, for example run.folder={free_folder(folder)}."
        )


def free_folder(folder: Path) -> Path:
    """One beside it that does not exist; of the working folder, or one around it, inside."""
    whole = folder.resolve()
    around = Path.cwd().is_relative_to(whole)
    first = folder / "runs" / (whole.name or "run") if around else folder
    tries = (first.with_name(f"{first.name}-{number}") for number in count(2))
    return next(path for path in (first, *islice(tries, 1000)) if not os.path.lexists(path))


def _clear(run: Run) -> None:
    if run.manifest.adopted:
        raise GlassformerError(
            f"{run.folder} holds a run of an older version, which did not list its files, so they "
            "cannot be told from yours; move what you need and delete the folder, or name another "
            f"one, for example run.folder={free_folder(run.folder)}."
        )
    run.manifest.clear()


def _check_inputs(run: Run) -> None:
    """What a recipe reads is not what its run writes."""
    own = run.folder.resolve()
    for key, value in flat(run.recipe.tables()).items():
        if key.split(".")[0] in FREE or key in FREE_KEYS:
            continue
        for word in value if isinstance(value, list) else [value]:
            path = Path(word).resolve() if isinstance(word, str) and word else None
            if path is None or not path.is_relative_to(own):
                continue
            name = path.relative_to(own).as_posix()
            if run.manifest.owns(name):
                raise GlassformerError(
                    f"{key} is {word}, which the run in {run.folder} has written itself and would "
                    f"replace; name another folder, for example "
                    f"run.folder={free_folder(run.folder)}."
                )


def _compare(run: Run) -> None:
    path = run.folder / "recipe.toml"
    if not run.manifest.owns(path.name):  # begun, and killed before it was written
        return
    run.manifest.check_text(path.name)
    changed = differences(read_recipe(path), run.recipe)
    if changed and not run.is_begun and run.finished is None:  # nothing was learned yet
        _clear(run)
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
