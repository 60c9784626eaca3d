"""Converts tables of plain values to dataclasses and checks the values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, field, fields
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from glassformer.errors import ConfigError

T = TypeVar("T")
WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    Mapping: "a table",
}


SYNONYMS = {  # keys of other trainers, understood in any table that has the key they stand for
    "lr": "learning_rate",
    "num_epochs": "epochs",
    "num_train_epochs": "epochs",
    "n_epochs": "epochs",
    "per_device_train_batch_size": "batch_size",
    "bs": "batch_size",
    "evaluation": "validation",
    "eval": "validation",
    "dev": "validation",
    "output_dir": "out",
    "output": "out",
    "max_seq_length": "sequence_length",
}


def number(
    default: Any,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> Any:
    """Returns a dataclass field with a default and bounds.

    Args:
        default: Default value.
        least: Inclusive lower bound.
        most: Inclusive upper bound.
        above: Exclusive lower bound.
        below: Exclusive upper bound.
    """
    bounds = {"at least": least, "at most": most, "more than": above, "less than": below}
    return field(default=default, metadata={k: v for k, v in bounds.items() if v is not None})


def fill(kind: type[T], table: str, values: Any) -> T:
    """Returns a dataclass filled from a table.

    Unknown keys become its `options`, if it has that field, and are an error otherwise.

    Args:
        kind: The dataclass.
        table: Name of the table, for error messages.
        values: The table.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{table} is {values!r}; it must be a table.")
    known: dict[str, Field[Any]] = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    given: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known and SYNONYMS.get(key) in known:
            key = SYNONYMS[key]
        if key in known and key != "options":
            given[key] = coerce_value(f"{table}.{key}", value, hints[key])
            _within(f"{table}.{key}", given[key], known[key].metadata)
        elif "options" in known:
            given.setdefault("options", {})[key] = value
        else:
            raise unknown(f"The table [{table}] of the recipe has no key", key, known)
    try:
        return kind(**given)
    except TypeError:
        missing = next(name for name in known if name not in given)
        raise ConfigError(f"The recipe lacks {table}.{missing}.") from None


def unknown(problem: str, name: str, known: Iterable[str]) -> ConfigError:
    """Returns an error about an unknown name, with the closest known one."""
    known = [key for key in known if key != "options"]
    near = get_close_matches(name, known, 1, cutoff=0.7) or [key for key in known if name in key]
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}."
    return ConfigError(f"{problem} {name!r}; {hint}")


def coerce_value(path: str, value: Any, kind: Any) -> Any:
    """Converts a value to a type; a single value for a tuple type becomes a tuple of one."""
    if get_origin(kind) in (Union, UnionType):
        kinds = [one for one in get_args(kind) if one is not NoneType]
        kind = kinds[0]
        if len(kinds) > 1:
            kind = next((k for k in kinds if isinstance(value, get_origin(k) or k)), kind)
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Literal:
        if value not in inside:
            near = get_close_matches(str(value), inside, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise _wrong(path, value, f"one of {', '.join(inside)}{hint}")
        return value
    if origin in (tuple, Sequence):
        several = value if isinstance(value, list | tuple) else [value]
        return tuple(coerce_value(path, one, inside[0]) for one in several)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise _wrong(path, value, WORDS[Mapping])
        if inside[1] is Any:
            return dict(value)
        return {key: coerce_value(f"{path}.{key}", one, inside[1]) for key, one in value.items()}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _wrong(path, value, WORDS[kind])
    return value


def _within(path: str, value: Any, bounds: Mapping[str, float]) -> None:
    if value is None:
        return
    tests = {
        "at least": lambda bound: value >= bound,
        "at most": lambda bound: value <= bound,
        "more than": lambda bound: value > bound,
        "less than": lambda bound: value < bound,
    }
    if not all(tests[word](bound) for word, bound in bounds.items()):
        raise _wrong(path, value, " and ".join(f"{word} {bound}" for word, bound in bounds.items()))


def _wrong(path: str, value: Any, wanted: str) -> ConfigError:
    return ConfigError(f"{path} is {value!r}; it must be {wanted}.")
