"""Writing TOML, which the standard library can only read, and overriding values."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from glassformer.errors import ConfigError

BARE = re.compile(r"[A-Za-z0-9_-]+")


def written(tables: Mapping[str, Any]) -> str:
    """Returns a TOML document of tables, without None values and empty tables."""
    return "\n".join("\n".join(lines) + "\n" for lines in _tables((), tables) if lines)


def value_of(text: str) -> Any:
    """Parses a TOML value; text that is not valid TOML is returned as a string.

    So shells need no quotes inside quotes.
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def override(tables: dict[str, Any], word: str) -> None:
    """Sets the value of `section.key=value` in the tables.

    If there are several [[section]] tables, an index selects one: `objective.0.weight=2`.
    """
    path, equals, text = word.partition("=")
    names = path.strip().split(".")
    if not equals or len(names) < 2:
        raise ConfigError(f"A setting is given as section.key=value, not as {word!r}.")
    place: Any = tables
    for name in names[:-1]:
        if isinstance(place, list):
            if not name.isdigit() or int(name) >= len(place):
                raise ConfigError(f"{path}: there are {len(place)} tables, counted from 0.")
            place = place[int(name)]
        else:
            place = place.setdefault(name, {})
        if not isinstance(place, dict | list):
            raise ConfigError(f"{path}: {name!r} is a value and has no settings of its own.")
    if isinstance(place, list):
        raise ConfigError(f"{path}: say which of the {len(place)} tables, counted from 0.")
    place[names[-1]] = value_of(text.strip())


def _tables(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[list[str]]:
    here = [f"{_key(k)} = {_value(v)}" for k, v in table.items() if _inline(v)]
    if here and path:
        here.insert(0, f"[{'.'.join(map(_key, path))}]")
    yield here
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _tables((*path, key), value)
        elif _several(value):
            for one in value:
                name = ".".join(map(_key, (*path, key)))
                yield [f"[[{name}]]", *(f"{_key(k)} = {_value(v)}" for k, v in one.items())]


def _inline(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping) and not _several(value)


def _several(value: Any) -> bool:
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    return listed and bool(value) and all(isinstance(one, Mapping) for one in value)


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        inside = (f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None)
        return f"{{ {', '.join(inside)} }}" if value else "{}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_value, value))}]"
    raise ConfigError(f"{value!r} cannot be written in a recipe; use texts and numbers.")
