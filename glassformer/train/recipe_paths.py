"""Paths in a recipe file: they are relative to the folder of the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from glob import escape, has_magic
from pathlib import Path
from typing import Any

PATHS = (
    "model.word_vectors",
    "data.train",
    "data.validation",
    "data.test",
    "data.cache",
    "run.out",
)
NAMES_OR_PATHS = ("model.base", "tokenizer.folder", "objective.teacher")
"""A value is a path if it begins with a dot or if the path exists; it is a name otherwise."""

Tables = Mapping[str, Any]


def resolve_paths(tables: Tables, folder: Path) -> dict[str, Any]:
    """Returns the tables of a file in this folder with paths that hold in the working directory."""

    def resolve(path: str, name: bool) -> str:
        root = escape(str(folder)) if has_magic(path) else str(folder)
        whole = os.path.normpath(os.path.join(root, path))
        return path if name and not path.startswith(".") and not os.path.exists(whole) else whole

    return _mapped(tables, resolve)


def relative_paths(tables: Tables, folder: Path) -> dict[str, Any]:
    """Returns the tables with relative paths as they are written in a file in this folder."""

    def relative(path: str, name: bool) -> str:
        if os.path.isabs(path) or (name and not os.path.exists(path)):
            return path
        return os.path.relpath(path, folder)

    return _mapped(tables, relative)


def absolute_paths(tables: Tables) -> dict[str, Any]:
    """Returns the tables with absolute paths, by which two recipes can be compared."""

    def absolute(path: str, name: bool) -> str:
        return path if name and not os.path.exists(path) else os.path.abspath(path)

    return _mapped(tables, absolute)


def _mapped(tables: Tables, change: Callable[[str, bool], str]) -> dict[str, Any]:
    def changed(key: str, value: Any) -> Any:
        if key not in PATHS and key not in NAMES_OR_PATHS:
            return value
        if isinstance(value, list | tuple):
            return [changed(key, one) for one in value]
        return change(value, key in NAMES_OR_PATHS) if value and isinstance(value, str) else value

    def table(name: str, values: Any) -> Any:
        if isinstance(values, list | tuple):  # several [[objective]] tables
            return [table(name, one) for one in values]
        if not isinstance(values, Mapping):
            return values
        return {key: changed(f"{name}.{key}", value) for key, value in values.items()}

    return {name: table(name, values) for name, values in tables.items()}
