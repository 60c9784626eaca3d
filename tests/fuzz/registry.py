"""The readers that the fuzzer tries: how valid files are made, and how they are read.

A module of `readers/` registers a reader by `@reader(...)` on the function that makes its samples:

    @reader("wav", read=read_sound)
    def sounds() -> Iterator[Sample]:
        yield Sample({"a.wav": ...})
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from random import Random

from tests.fuzz import readers

Mutation = Callable[[Random, bytes], bytes]


class SilentlyWrongError(AssertionError):
    """What was read is not what the file holds."""


@dataclass(frozen=True)
class Sample:
    """Valid files by name, and the names of those to mutate; all if none is named."""

    files: Mapping[str, bytes]
    targets: tuple[str, ...] = ()


@dataclass
class Reader:
    """A reader of files.

    `read` gets the folder of the files; it raises a GlassformerError, or returns after it has
    checked what was read. `mutations` knows the structure of files, by the ending of their names;
    JSON and TOML are known to all readers. `weight` is the reader's share of the trials.
    """

    name: str
    make: Callable[[], Iterator[Sample]]
    read: Callable[[Path], None]
    mutations: Mapping[str, Mutation] = field(default_factory=dict)
    weight: int = 1

    @cache  # noqa: B019 - readers live as long as the process
    def samples(self) -> tuple[Sample, ...]:
        return tuple(self.make())

    def __hash__(self) -> int:
        return hash(self.name)


READERS: dict[str, Reader] = {}


def reader(
    name: str,
    *,
    read: Callable[[Path], None],
    mutations: Mapping[str, Mutation] | None = None,
    weight: int = 1,
) -> Callable[[Callable[[], Iterator[Sample]]], Callable[[], Iterator[Sample]]]:
    """Registers a reader; the decorated function yields valid samples."""

    def register(make: Callable[[], Iterator[Sample]]) -> Callable[[], Iterator[Sample]]:
        assert name not in READERS, name
        READERS[name] = Reader(name, make, read, mutations or {}, weight)
        return make

    return register


def all_readers() -> dict[str, Reader]:
    for module in sorted(found.name for found in iter_modules(readers.__path__)):
        import_module(f"{readers.__name__}.{module}")
    return READERS
