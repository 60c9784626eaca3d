"""The inputs of a run: the files that it reads, with fingerprints of their content.

inputs.json lists them when the run begins. A run resumes only with the same inputs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from glassformer.data.files import find_files
from glassformer.errors import GlassformerError
from glassformer.find_model import find_base, find_folder
from glassformer.storage.fingerprints import Progress, fingerprints
from glassformer.train.recipe import Recipe
from glassformer.train.run_records import INPUTS, read_record
from glassformer.weights.folder_kind import has_checkpoints_alone, holds_adapter
from glassformer.weights.model_files import model_files, tokenizer_files

FILE = "inputs.json"
Fingerprints = dict[str, dict[str, str]]
"""By setting of the recipe, the fingerprint of each file by its name.

The name of a data file is its path relative to the run folder; that of a model's file is relative
to the model.
"""


class RunInputs:
    """The files that a recipe names, as they are now.

    Args:
        recipe: The complete recipe.
        folder: The run folder.
    """

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, dict[str, Path]] = {}
        self._sources: dict[str, str] = {}
        for setting, patterns in _data_settings(recipe).items():
            self.files[setting] = _data_files(patterns, folder)
        for setting, source in _sources(recipe).items():
            self._sources[setting] = source
            find = _tokenizer_files if setting == "tokenizer.folder" else source_files
            self.files[setting] = _if_there(partial(find, source))

    def fingerprints(self, progress: Progress | None = None) -> Fingerprints:
        """Hashes all files."""
        return self._hashed(self.files, progress)

    @staticmethod
    def _hashed(files: Mapping[str, Mapping[str, Path]], progress: Progress | None) -> Fingerprints:
        found = fingerprints(
            {path for named in files.values() for path in named.values()}, progress
        )
        return {
            setting: {name: found[path] for name, path in named.items()}
            for setting, named in files.items()
        }

    def changed(
        self, before: Fingerprints, *, missing: bool = True, progress: Progress | None = None
    ) -> str | None:
        """Returns what has changed since a run was begun with these fingerprints, if anything.

        Args:
            before: The fingerprints at the beginning, of all settings or of some.
            missing: Whether a missing file counts as changed.
            progress: Called with the bytes hashed and the total.
        """
        for setting, named in before.items():
            there = self.files.get(setting, {})
            lost = [name for name in named if name not in there]
            if lost and missing:
                return self._sentence(setting, lost[0], "is missing; it was there when", "back")
            new = [name for name in there if name not in named]
            if new and not lost:
                return self._sentence(setting, new[0], "was not there when", "away")
        now = self._hashed({setting: self.files.get(setting, {}) for setting in before}, progress)
        for setting, named in before.items():
            for name, digest in named.items():
                if now.get(setting, {}).get(name, digest) != digest:
                    return self._sentence(setting, name, "has changed since", "back as it was")
        return None

    def _sentence(self, setting: str, name: str, what: str, remedy: str) -> str:
        source = self._sources.get(setting)
        lost = os.path.normpath(self.folder / name) if source is None else f"{source}/{name}"
        path = self.files.get(setting, {}).get(name, lost)
        return (
            f"{path} ({setting}) {what} the run in {self.folder} was started; put it {remedy}, or "
            "--restart starts again."
        )


def read_inputs(path: Path) -> Fingerprints:
    """Reads the fingerprints that a run has written."""
    return read_record(path, INPUTS)


def _data_settings(recipe: Recipe) -> dict[str, Sequence[str]]:
    """Returns the paths and patterns of the settings that name data files."""
    found: dict[str, Sequence[str]] = {
        "data.train": recipe.data.train,
        "data.validation": () if recipe.data.held_out else recipe.data.files("validation"),
        "data.test": recipe.data.test,
        "model.word_vectors": [recipe.model.word_vectors] if recipe.model.word_vectors else (),
    }
    return {setting: patterns for setting, patterns in found.items() if patterns}


def _sources(recipe: Recipe) -> dict[str, str]:
    """Returns the sources of the settings that name a model or a tokenizer."""
    teachers = enumerate(_teachers([one.options for one in recipe.objective]), 1)
    found = {
        "model.base": recipe.model.base,
        "tokenizer.folder": recipe.tokenizer.folder,
        **{f"objective.teacher {n}" if n > 1 else "objective.teacher": t for n, t in teachers},
    }
    return {setting: source for setting, source in found.items() if source is not None}


def _if_there(find: Callable[[], dict[str, Path]]) -> dict[str, Path]:
    """Returns the files found; none if something is missing, which is reported when it is read."""
    with suppress(GlassformerError, OSError):
        return find()
    return {}


def _data_files(patterns: Sequence[str], folder: Path) -> dict[str, Path]:
    own = os.path.abspath(folder)
    found: dict[str, Path] = {}
    for pattern in patterns:
        with suppress(GlassformerError):  # reported when it is read
            paths = find_files([pattern])
            found |= {
                Path(os.path.relpath(path.absolute(), own)).as_posix(): path for path in paths
            }
    return found


def _tokenizer_files(source: str) -> dict[str, Path]:
    path = Path(source)
    return {path.name: path} if path.is_file() else tokenizer_files(path)


def source_files(source: str | Path) -> dict[str, Path]:
    """Returns the files that `gf.load` reads for a source, an adapter's base included."""
    if has_checkpoints_alone(Path(source)):
        state = sorted((Path(source) / "state").glob("step-*"))[-1]
        return {f"{state.name}/{path.name}": path for path in sorted(state.iterdir())}
    folder = find_folder(source)
    found = model_files(folder)
    if holds_adapter(folder):
        below = _if_there(lambda: source_files(find_base(folder)))
        found |= {f"base/{name}": path for name, path in below.items()}
    return found


def _teachers(options: Any) -> Iterator[str]:
    """Yields the teachers of objectives, also of those inside others."""
    for key, value in options.items() if isinstance(options, Mapping) else enumerate(options):
        if key == "teacher" and isinstance(value, str):
            yield value
        elif isinstance(value, Mapping | list | tuple):
            yield from _teachers(value)
