"""The registry of objectives by their names in a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any, NamedTuple, TypeVar, get_type_hints

from glassformer.errors import ConfigError
from glassformer.model import Model
from glassformer.registry import Registry
from glassformer.tasks.registry import TASKS
from glassformer.tasks.task_words import verb_of
from glassformer.train.objectives.objective import Objective
from glassformer.train.renamed_keys import renamed_option

REWRITING = ("translate", "summarize")
OBJECTIVES: Registry[type[Objective]] = Registry("objective", __package__, "objective")
Kind = TypeVar("Kind", bound=type[Objective])


def objective(name: str) -> Callable[[Kind], Kind]:
    """Returns a decorator that registers a class under a name."""
    return OBJECTIVES.decorator(name)


def objective_names() -> list[str]:
    """Returns the names of all objectives, without importing them."""
    return OBJECTIVES.names()


def find_objective(name: str) -> type[Objective]:
    """Returns the class of an objective by its name or another word for its task.

    Its module is imported if it is not imported yet.
    """
    return OBJECTIVES.find(objective_of(name))


def objective_of(name: str, encoder_decoder: bool | None = None) -> str:
    """Returns the name of an objective for a word such as "ner", "translation" or "span".

    Args:
        name: The name of an objective, or another word for its task.
        encoder_decoder: Whether the model has both stacks, by which translation and summarization
            are learned by one objective or another.
    """
    verb = None if name in objective_names() else verb_of(name)
    if verb is None:
        return name
    if verb in REWRITING:
        if encoder_decoder is None:
            return name
        return "sequence-to-sequence" if encoder_decoder else "continuation"
    return TASKS.find(verb).objective


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

    Returns:
        The objective.
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
    make: Callable[..., Objective] = find_objective(name)
    return make(model, **words)


def _nearest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), 1, cutoff=0.7)
    return f"did you mean {near[0]!r}?" if near else "it is like none that there is."
