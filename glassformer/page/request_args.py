"""Validation of request arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from glassformer.errors import ConfigError

Fields = TypeVar("Fields", covariant=True)


class RequestArgs(Generic[Fields]):
    """The JSON body of a request, whose type is `Fields`.

    A field of an unexpected type raises a `ConfigError` with one clear sentence.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = fields

    def __contains__(self, name: str) -> bool:
        return self.fields.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        return str(self._value(name, default, str, "a text"))

    @property
    def output(self) -> str | None:
        """The head whose outputs are used, if the request names one."""
        return self.text("output") if "output" in self else None

    def flag(self, name: str) -> bool:
        return bool(self._value(name, False, bool, "true or false"))

    def choice(self, name: str, options: Sequence[str], default: str | None = None) -> str:
        found = self.text(name, default)
        if found not in options:
            raise ConfigError(f"{name} is one of {', '.join(options)}, not {found!r}.")
        return found

    def index(
        self, name: str, default: int | None = None, *, least: int = 0, most: int | None = None
    ) -> int:
        """Returns an integer between `least` and `most`, both inclusive."""
        found = int(self._value(name, default, int, "a whole number"))
        if found < least or (most is not None and found > most):
            until = "on" if most is None else f"to {most}"
            raise ConfigError(f"{name} goes from {least} {until}; {found} is not there.")
        return found

    def number(self, name: str, default: float) -> float:
        return float(self._value(name, default, int | float, "a number"))

    def list(self, name: str) -> Sequence[Any] | None:
        return self._value(name, None, list, "a list") if name in self else None

    def table(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._value(name, {}, Mapping, "an object")
        return found

    def _value(self, name: str, default: Any, kind: Any, expected: str) -> Any:
        value = self.fields.get(name)
        if value is None:
            if default is None:
                raise ConfigError(f"The request needs {name!r}, {expected}.")
            return default
        wrong = isinstance(value, bool) and kind is not bool  # bool is a subclass of int
        if wrong or not isinstance(value, kind):
            raise ConfigError(f"{name!r} must be {expected}, not {value!r:.60}.")
        return value
