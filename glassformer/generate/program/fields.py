"""Deny by default: a program consumes every field of a spec, or the field has its default."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar, cast

from glassformer.errors import UnsupportedError

Spec = TypeVar("Spec")


@contextmanager
def consuming(spec: Spec, path: str, *without_effect: str) -> Iterator[Spec]:
    """Yields a view of a spec that notes which fields are read.

    On exit, raises an error for a field that was not read and does not have its default: it may
    change the result in a way that the program does not know.

    Args:
        spec: The spec.
        path: Its name in error messages.
        *without_effect: Fields that do not change a decoder step, or are part of a module that the
            program names.
    """
    view = _View(spec, {*without_effect})
    yield cast(Spec, view)
    for field in fields(cast(Any, spec)):
        value = getattr(spec, field.name)
        if field.name not in view._read and value != _default(field):
            raise unsupported(f"{path}.{field.name}", value)


def unsupported(field: str, value: object) -> UnsupportedError:
    """Returns the error for a field whose value a program cannot express."""
    shown = value if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return UnsupportedError(f"No step program has {field} = {shown!r}.", field=field)


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


class _View:
    def __init__(self, spec: object, read: set[str]) -> None:
        self._spec, self._read = spec, read

    def __getattr__(self, name: str) -> Any:
        self._read.add(name)
        return getattr(self._spec, name)
