"""The registry of objectives by their names in a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, NamedTuple, TypeVar, get_type_hints

from glassformer.errors import ConfigError
from glassformer.model import Model
from glassformer.train.objectives.objective import Objective
from glassformer.train.renamed_keys import renamed_option

OBJECTIVES: dict[str, type[Objective]] = {}
Kind = TypeVar("Kind", bound=type[Objective])


def objective(name: str) -> Callable[[Kind], Kind]:
    """Returns a decorator that registers a class under a name."""

    def register(kind: Kind) -> Kind:
        OBJECTIVES[name] = kind
        return kind

    return register


@cache
def objectives() -> Mapping[str, type[Objective]]:
    """Returns all objectives by name; imports the modules of this folder."""
    for found in iter_modules([str(Path(__file__).parent)]):
        import_module(f"{__package__}.{found.name}")
    return OBJECTIVES


class Option(NamedTuple):
    """An option of an objective."""

    kind: Any  # its type
    default: Any  # Parameter.empty if there is none


def options_of(name: str) -> dict[str, Option]:
    """Returns the options of an objective: its keyword-only arguments with their defaults.

    If a default is a dataclass, its fields are options, too, so that several objectives can share
    options.
    """
    if name not in objectives():
        raise ConfigError(
            f"There is no objective {name!r}; {_nearest(name, objectives())} There are: "
            f"{', '.join(sorted(objectives()))}."
        )
    hints = get_type_hints(objectives()[name].__init__)
    found: dict[str, Option] = {}
    for key, default in _defaults(name).items():
        if is_dataclass(default) and not isinstance(default, type):
            inside = get_type_hints(type(default))
            found |= {
                each.name: Option(inside[each.name], getattr(default, each.name))
                for each in fields(default)
            }
        else:
            found[key] = Option(hints[key], default)
    return found


def _defaults(name: str) -> dict[str, Any]:
    arguments = signature(objectives()[name]).parameters.items()
    return {key: a.default for key, a in arguments if a.kind is Parameter.KEYWORD_ONLY}


def check_options(name: str, given: Iterable[str]) -> dict[str, Option]:
    """Returns the options of an objective, and raises an error if an unknown one is given."""
    known = options_of(name)
    for key in given:
        if new := renamed_option(key, known):
            raise ConfigError(f"objective.{key} is now objective.{new}.")
        if key not in known:
            raise ConfigError(
                f"The objective {name!r} has no option {key!r}; {_nearest(key, known)} It has: "
                f"{', '.join(known) or 'none'}."
            )
    return known


def make_objective(
    name: str, model: Model, options: Mapping[str, Any], length: int | None = None
) -> Objective:
    """Creates an objective for a model.

    Args:
        name: Name of the objective.
        model: The model to train.
        options: Options of the objective.
        length: Row length of the data; becomes the option `max_length` if the objective has it and
            it is not given.
    """
    known = check_options(name, options)
    if "max_length" in known and options.get("max_length") is None:
        options = {**options, "max_length": length}
    for key, argument in known.items():
        if argument.default is Parameter.empty and key not in options:
            raise ConfigError(f"The objective {name!r} needs the option {key!r}.")
    words = dict(options)
    for key, default in _defaults(name).items():
        if is_dataclass(default) and not isinstance(default, type):
            shared = {e.name: words.pop(e.name) for e in fields(default) if e.name in words}
            words[key] = replace(default, **shared)
    make: Callable[..., Objective] = objectives()[name]
    return make(model, **words)


def _nearest(name: str, known: Mapping[str, object]) -> str:
    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]!r}?" if near else "it is like none that there is."
