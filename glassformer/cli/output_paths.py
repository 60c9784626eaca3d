"""Checks of output paths, made for all commands before they begin.

An output is never an input, and an existing file is not replaced without --overwrite.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from glob import glob
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from glassformer.errors import ConfigError

Given = Mapping[str, Any]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Replace an existing output file; input files are never replaced."
    ),
]


@dataclass(frozen=True)
class OutputPath:
    """Annotation of a parameter that names an output, beside its typer.Option or typer.Argument.

    Args:
        continued: Whether the output may exist: the command then continues it if it is its own.
        default: Returns the path if none is given.
    """

    continued: bool = False
    default: Callable[[Given], Path | None] = lambda given: None


def with_output_checks(verb: Callable[..., None]) -> Callable[..., None]:
    """Adds the checks of outputs to a command, and --overwrite if it writes new files."""
    hints = get_type_hints(verb, include_extras=True)
    targets = {name: target for name, hint in hints.items() for target in targets_in(hint)}
    if not targets:
        return verb
    signature = inspect.signature(verb)
    parameters = [p.replace(annotation=hints[p.name]) for p in signature.parameters.values()]
    if not all(target.continued for target in targets.values()):
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter("overwrite", kind, default=False, annotation=Overwrite))

    @wraps(verb)
    def call(**given: Any) -> None:
        overwrite = given.pop("overwrite", False)
        named = {name: given[name] or target.default(given) for name, target in targets.items()}
        read = [
            path for name, value in given.items() if name not in targets for path in paths_in(value)
        ]
        for name, output in named.items():
            if output is not None:
                check_output(output, read, targets[name].continued, overwrite)
                read.append(output)  # two outputs must not be the same file either
        verb(**given | named)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    return call


def targets_in(hint: Any) -> Iterator[OutputPath]:
    return (one for one in getattr(hint, "__metadata__", ()) if isinstance(one, OutputPath))


def paths_in(value: Any) -> Iterator[Path]:
    """Yields files and folders that an argument names, by itself or as a pattern."""
    for word in value if isinstance(value, list | tuple) else [value]:
        if isinstance(word, str | Path) and os.path.lexists(word):
            yield Path(word)
        elif isinstance(word, str):
            yield from map(Path, glob(word))


def check_output(path: Path, read: Sequence[Path], continued: bool, overwrite: bool) -> None:
    """Raises an error if the output is an input, or exists and must not be replaced."""
    place = resolved(path)
    for other in read:
        if is_same(path, other) or resolved(other).is_relative_to(place):
            raise ConfigError(
                f"{path} cannot be an output, because this command reads or writes {other}; name "
                "another one."
            )
    if continued or not os.path.lexists(path):
        return
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file.")
    around = [folder for folder in read if place.is_relative_to(resolved(folder))]
    if overwrite and around:
        raise ConfigError(
            f"{path} is a file of {around[0]}, which this command reads; name another one."
        )
    if not path.is_file():
        raise ConfigError(f"{path} is not a regular file; name another file.")
    if not overwrite:
        raise ConfigError(f"{path} exists; name another file, or use --overwrite to replace it.")


def is_same(one: Path, other: Path) -> bool:
    """Compares files, including links, hard links, and case on case-insensitive file systems."""
    try:
        return one.samefile(other)
    except OSError:
        return resolved(one) == resolved(other)


def resolved(path: Path) -> Path:
    """Returns the path without links; a link that leads to itself stays."""
    return Path(os.path.realpath(path))


def free_file(path: Path) -> Path:
    """Returns the first of a.txt, a-2.txt, a-3.txt, ... that does not exist."""
    others = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return next(one for one in chain([path], others) if not os.path.lexists(one))
