"""Train room, objectives: which there are, by the names they have in a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, TypeVar

from glassformer.errors import GlassformerError
from glassformer.model import Model
from glassformer.train.objectives.objective import Objective

OBJECTIVES: dict[str, type[Objective]] = {}
Kind = TypeVar("Kind", bound=type[Objective])


def objective(name: str) -> Callable[[Kind], Kind]:
    """Makes a class known under a name."""

    def register(kind: Kind) -> Kind:
        OBJECTIVES[name] = kind
        return kind

    return register


@cache
def objectives() -> Mapping[str, type[Objective]]:
    """All of them, by name; the files of this folder are read for it."""
    for found in iter_modules([str(Path(__file__).parent)]):
        import_module(f"{__package__}.{found.name}")
    return OBJECTIVES


def options_of(name: str) -> dict[str, Parameter]:
    """What can be said about an objective: its keyword-only arguments, with their defaults."""
    if name not in objectives():
        raise GlassformerError(
            f"There is no objective {name!r}; {_nearest(name, objectives())} There are: "
            f"{', '.join(sorted(objectives()))}."
        )
    arguments = signature(objectives()[name]).parameters
    return {key: a for key, a in arguments.items() if a.kind is Parameter.KEYWORD_ONLY}


def check_options(name: str, given: Iterable[str]) -> dict[str, Parameter]:
    """What can be said, if nothing else is."""
    known = options_of(name)
    for key in given:
        if key not in known:
            raise GlassformerError(
                f"The objective {name!r} has no option {key!r}; {_nearest(key, known)} It has: "
                f"{', '.join(known) or 'none'}."
            )
    return known


def make_objective(
    name: str, model: Model, options: Mapping[str, Any], length: int | None = None
) -> Objective:
    """The objective of this name, for this model. Where the data's rows have a `length`, it is the
    objective's too, if that knows one and nothing else was said."""
    known = check_options(name, options)
    if "length" in known and options.get("length") is None:
        options = {**options, "length": length}
    for key, argument in known.items():
        if argument.default is Parameter.empty and key not in options:
            raise GlassformerError(f"The objective {name!r} needs the option {key!r}.")
    make: Callable[..., Objective] = objectives()[name]
    return make(model, **options)


def _nearest(name: str, known: Mapping[str, object]) -> str:
    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]!r}?" if near else "it is like none that there is."
