"""A registry of things by name, filled by the modules of a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Generic, TypeVar

from glassformer.errors import ConfigError

Entry = TypeVar("Entry")
Kind = TypeVar("Kind")


class Registry(Generic[Entry]):
    """Entries by name. The modules of a package are imported at the first lookup and register them.

    Args:
        what: What an entry is, for error messages.
        package: The package whose modules register entries.
        decorator: Name of the decorator with which modules register entries, as in
            `@decorator("name")`. With it, a lookup imports only the module of the entry.
    """

    def __init__(self, what: str, package: str, decorator: str | None = None) -> None:
        self.what, self.package, self.decorator_name = what, package, decorator
        self._entries: dict[str, Entry] = {}
        self._imported = False

    def register(self, name: str, entry: Entry) -> None:
        """Adds an entry; a second one of the same name is an error."""
        if name in self._entries:
            raise ConfigError(f"There are two {self.what}s of the name {name!r}; rename one.")
        self._entries[name] = entry

    def decorator(self, name: str) -> Callable[[Kind], Kind]:
        """Returns a decorator that registers a class or a function under a name."""

        def register(kind: Kind) -> Kind:
            self.register(name, kind)  # type: ignore[arg-type]
            return kind

        return register

    def all(self) -> Mapping[str, Entry]:
        """Returns all entries by name, sorted."""
        if not self._imported:
            self._imported = True
            package = import_module(self.package)
            for found in iter_modules([str(Path(folder)) for folder in package.__path__]):
                import_module(f"{self.package}.{found.name}")
        return dict(sorted(self._entries.items()))

    def names(self) -> list[str]:
        """Returns the names of all entries, sorted."""
        return sorted({*self._entries, *(self._modules or self.all())})

    @cached_property
    def _modules(self) -> dict[str, str]:
        """The modules by the names of their entries, read from the source text."""
        if self.decorator_name is None:
            return {}
        decorator = re.compile(rf'^@{self.decorator_name}\("([\w-]+)"\)', re.MULTILINE)
        return {
            name: f"{self.package}.{path.stem}"
            for folder in import_module(self.package).__path__
            for path in sorted(Path(folder).glob("*.py"))
            for name in decorator.findall(path.read_text("utf-8"))
        }

    def find(self, name: str) -> Entry:
        """Returns the entry of a name; an unknown name is an error that lists all."""
        if name not in self._entries and name in self._modules:
            import_module(self._modules[name])
        entries = self._entries if name in self._entries else self.all()
        if name not in entries:
            near = get_close_matches(name, entries, 1, cutoff=0.7)
            hint = f"did you mean {near[0]!r}? There are" if near else "there are"
            raise ConfigError(f"There is no {self.what} {name!r}; {hint}: {', '.join(entries)}.")
        return entries[name]
