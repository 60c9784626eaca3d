"""Text of recipes: TOML if tomli-w is installed and JSON otherwise; overrides of values.

The standard library reads TOML and cannot write it, and training must not require tomli-w.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from glassformer.errors import ConfigError

LINE = 88
ARRAY = re.compile(r"^(.*= \[)((?:\n    .*)*)\n\]$", re.MULTILINE)


def recipe_format() -> str:
    """Returns the format in which recipes are written: "toml" or "json"."""
    return "json" if find_spec("tomli_w") is None else "toml"


def write_recipe(tables: Mapping[str, Any]) -> str:
    """Returns the text of a recipe in the format `recipe_format()`, without None values."""
    try:
        if recipe_format() == "json":
            return json.dumps(_without_none(tables), indent=2, ensure_ascii=False) + "\n"
        import tomli_w

        return tomli_w.dumps(_without_none(tables))
    except TypeError as error:
        raise ConfigError(
            f"The recipe cannot be written ({error}); use texts, numbers, lists and tables."
        ) from None


def short_arrays(text: str) -> str:
    """Returns TOML with each array on one line if it fits there, for display."""

    def joined(found: re.Match[str]) -> str:
        line = found[1] + " ".join(found[2].split("\n    ")).strip().removesuffix(",") + "]"
        return line if len(line) <= LINE else found[0]

    return ARRAY.sub(joined, text)


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_none(one) for key, one in value.items() if one is not None}
    return [_without_none(one) for one in value] if isinstance(value, list | tuple) else value


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
        raise ConfigError(
            f"{path}: name one of the {len(place)} tables by its number, counted from 0."
        )
    place[names[-1]] = value_of(text.strip())
