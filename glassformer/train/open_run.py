"""Opens the folder of a new or an existing run, and locks it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path

from glassformer.errors import ConfigError, DataError, GlassformerError, LoadError
from glassformer.storage.files import is_utf8, open_plain
from glassformer.storage.fingerprints import Progress
from glassformer.text.loading.load import holds_tokenizer
from glassformer.train.data_summary import FILE as SUMMARY
from glassformer.train.inputs import FILE as INPUTS
from glassformer.train.inputs import RunInputs, read_inputs
from glassformer.train.manifest import DRAFT, MANIFEST, Manifest
from glassformer.train.recipe import FREE, FREE_KEYS, Recipe, differences, flatten
from glassformer.train.recipe_text import recipe_format
from glassformer.train.run_folder import Run
from glassformer.train.run_folder_v01 import files_of_older_run
from glassformer.train.stored_recipe import read_stored_recipe
from glassformer.weights.folder_kind import RECIPES, recipe_of

LOCK = ".lock"
LENGTH = ("train.epochs:", "train.max_steps:")  # what may differ when a run is extended
FILES = ("metrics.jsonl", "about.json", "README.md", SUMMARY, INPUTS)
NO_CONTENT = (".DS_Store", ".gitignore", ".gitkeep", "lost+found")
"""A folder that contains only these is considered empty; a run never writes them."""


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
    had_lock = os.path.lexists(folder / LOCK)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"run.out is {folder}, which is a file; name a folder.")
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
                    _remove_failed_start(run, made, had_lock)
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


def _remove_failed_start(run: Run, made: Sequence[Path], had_lock: bool) -> None:
    """Removes what a run has written that failed before its first step, and its new folders."""
    run.manifest.clear()
    run.manifest.close()
    (run.folder / MANIFEST).unlink(missing_ok=True)
    if not had_lock:  # it may be another program's
        (run.folder / LOCK).unlink(missing_ok=True)
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
    elif run.is_begun or finished:
        if run.manifest.adopted:  # of an older version, which stored none
            return
        raise DataError(
            f"{run.folder / INPUTS} is gone, so nothing says whether the run's data and models are "
            "still the same; --restart starts again."
        )
    run.manifest.write(INPUTS, json.dumps(inputs.fingerprints(progress), indent=1) + "\n")
