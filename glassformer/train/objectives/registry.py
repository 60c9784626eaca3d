"""The registry of objectives by their names in a recipe."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_type_hints

from glassformer.errors import ConfigError
from glassformer.model import Model
from glassformer.train.objectives.objective import Objective

DECORATOR = re.compile(r'^@objective\("([\w-]+)"\)', re.MULTILINE)
OBJECTIVES: dict[str, type[Objective]] = {}
"""The objectives that are imported, by name."""
Kind = TypeVar("Kind", bound=type[Objective])


def objective(name: str) -> Callable[[Kind], Kind]:
    """Returns a decorator that registers a class under a name."""

    def register(kind: Kind) -> Kind:
        OBJECTIVES[name] = kind
        return kind

    return register


@cache
def _modules() -> Mapping[str, str]:
    """Returns the modules of this folder by the names of their objectives.

    The names are read from the source, so that only the objective of a recipe is imported.
    """
    return {
        name: f"{__package__}.{path.stem}"
        for path in sorted(Path(__file__).parent.glob("*.py"))
        for name in DECORATOR.findall(path.read_text("utf-8"))
    }


def objective_names() -> list[str]:
    """Returns the names of all objectives, without importing them."""
    return sorted({*OBJECTIVES, *_modules()})


def find_objective(name: str) -> type[Objective]:
    """Returns the class of an objective, and imports its module if it is not imported yet."""
    if name not in OBJECTIVES:
        if name not in _modules():
            known = objective_names()
            raise ConfigError(
                f"There is no objective {name!r}; {_nearest(name, known)} There are: "
                f"{', '.join(known)}."
            )
        import_module(_modules()[name])
    return OBJECTIVES[name]


class Option(NamedTuple):
    """An option of an objective."""

    kind: Any  # its type
    default: Any  # Parameter.empty if there is none


def options_of(name: str) -> dict[str, Option]:
    """Returns the options of an objective: its keyword-only arguments with their defaults.

    If a default is a dataclass, its fields are options, too, so that several objectives can share
    options.
    """
    hints = get_type_hints(find_objective(name).__init__)
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
    arguments = signature(find_objective(name)).parameters.items()
    return {key: a.default for key, a in arguments if a.kind is Parameter.KEYWORD_ONLY}


def check_options(name: str, given: Iterable[str]) -> dict[str, Option]:
    """Returns the options of an objective, and raises an error if an unknown one is given."""
    known = options_of(name)
    for key in given:
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
        length: Row length of the data; becomes the option `length` if the objective has it and it
            is not given.
    """
    known = check_options(name, options)
    if "length" in known and options.get("length") is None:
        options = {**options, "length": length}
    for key, argument in known.items():
        if argument.default is Parameter.empty and key not in options:
            raise ConfigError(f"The objective {name!r} needs the option {key!r}.")
    words = dict(options)
    for key, default in _defaults(name).items():
        if is_dataclass(default) and not isinstance(default, type):
            shared = {e.name: words.pop(e.name) for e in fields(default) if e.name in words}
            words[key] = replace(default, **shared)
    make: Callable[..., Objective] = find_objective(name)
    return make(model, **words)


def _nearest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]!r}?" if near else "it is like none that there is."
