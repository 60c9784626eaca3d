"""Validation of request arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glassformer.errors import ConfigError

Limits = tuple[float | None, float | None]


class RequestArgs:
    """The JSON body of a request.

    A field of an unexpected type raises a `ConfigError` with one clear sentence.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given

    def __contains__(self, name: str) -> bool:
        return self.given.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        return str(self._value(name, default, str, "a text"))

    @property
    def output(self) -> str | None:
        """The head whose outputs are used, if the request names one."""
        return self.text("output") if "output" in self else None

    def flag(self, name: str) -> bool:
        return bool(self._value(name, False, bool, "true or false"))

    def choice(self, name: str, of: Sequence[str], default: str | None = None) -> str:
        found = self.text(name, default)
        if found not in of:
            raise ConfigError(f"{name} is one of {', '.join(of)}, not {found!r}.")
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

    def _value(self, name: str, default: Any, kind: Any, said: str) -> Any:
        value = self.given.get(name)
        if value is None:
            if default is None:
                raise ConfigError(f"The question needs {name!r}, {said}.")
            return default
        wrong = isinstance(value, bool) and kind is not bool  # bool is a subclass of int
        if wrong or not isinstance(value, kind):
            raise ConfigError(f"{name!r} must be {said}, not {value!r:.60}.")
        return value
