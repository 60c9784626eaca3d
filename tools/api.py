"""Writes docs/api.md from the docstrings of the public API.

    python tools/api.py

`tests/docs/test_reference.py` checks that the page is up to date and that the docstrings describe
every argument and the return value.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import glassformer as gf
from glassformer import adapters, generate, inside
from glassformer.baselines.ngram import NGram
from glassformer.evaluate.evaluate import evaluate
from glassformer.generate.result import GenerationOutput
from glassformer.model_adapters import ModelAdapters
from glassformer.tasks import monitor, task_settings
from glassformer.train.entry import train

PAGE = Path(__file__).parent.parent / "docs" / "api.md"
CALLABLE_PACKAGES = {"train": train, "evaluate": evaluate}
ADAPTERS = (*(kind.__name__ for kind in adapters.KINDS.values()), "penalty", "after_step")
HEAD = """# Python API

This page lists the functions, classes and methods that users call, with their docstrings. The
guides show an example of each. Invalid input always raises a `GlassformerError`, whose message
names the problem and the remedy.
"""


@dataclass(frozen=True)
class Entry:
    """One function, class, method, property or module of the page."""

    name: str
    thing: Any

    @property
    def is_function(self) -> bool:
        return inspect.isfunction(self.thing)

    @property
    def docstring(self) -> str:
        """The docstring without its examples."""
        whole = inspect.getdoc(self.thing) or ""
        return whole.partition("\n\n>>>")[0].partition("\n>>>")[0].strip()

    @property
    def parameters(self) -> list[inspect.Parameter]:
        found = inspect.signature(self.thing).parameters.values() if self.is_function else ()
        return [one for one in found if one.name not in ("self", "cls")]

    @property
    def markdown(self) -> str:
        call = f"`{self.name}{signature(self.parameters)}`\n\n" if self.is_function else ""
        return f"### {self.name}\n\n{call}{self.docstring}\n"


def signature(parameters: list[inspect.Parameter]) -> str:
    """The parameters with their defaults, without types."""
    shown: list[str] = []
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and "*" not in "".join(shown):
            shown.append("*")
        default = "" if one.default is one.empty else f"={one.default!r}"
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        shown.append(stars + one.name + default)
    return f"({', '.join(shown)})"


def functions() -> Iterator[Entry]:
    for name in sorted(gf.__all__):
        thing = CALLABLE_PACKAGES.get(name, getattr(gf, name))
        if inspect.isfunction(thing):
            yield Entry(f"gf.{name}", thing)


def classes() -> Iterator[Entry]:
    for name in sorted(gf.__all__):
        if inspect.isclass(getattr(gf, name)):
            yield Entry(f"gf.{name}", getattr(gf, name))


def methods(kind: type, prefix: str) -> Iterator[Entry]:
    """The public methods and properties of a class and of its bases in this package."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("glassformer."):
            continue
        for name, thing in vars(base).items():
            found = unwrapped(thing)
            if name.startswith("_") or name in seen or found is None or not found.__doc__:
                continue
            seen.add(name)
            yield Entry(f"{prefix}.{name}", found)


def unwrapped(thing: Any) -> Callable[..., Any] | property | None:
    """The function of a method, or a property; None for anything else."""
    if isinstance(thing, (classmethod, staticmethod)):
        return thing.__func__
    if isinstance(thing, cached_property):
        return property(thing.func)
    return thing if inspect.isfunction(thing) or isinstance(thing, property) else None


def members(module: Any, prefix: str, names: tuple[str, ...] | list[str]) -> Iterator[Entry]:
    for name in names:
        thing = getattr(module, name)
        if inspect.isfunction(thing) or inspect.isclass(thing) or inspect.ismodule(thing):
            yield Entry(f"{prefix}.{name}", thing)


def sections() -> dict[str, list[Entry]]:
    """The entries of the page by heading."""
    return {
        "Functions": [*functions()],
        "Classes": [*classes()],
        "Model": [*methods(gf.Model, "model")],
        "Adapters of a model": [*methods(ModelAdapters, "model.adapters")],
        "Generated text": [*methods(GenerationOutput, "output")],
        "Tokenizer": [*methods(gf.Tokenizer, "tokenizer")],
        "Cache": [*methods(gf.Cache, "cache")],
        "Tasks": [
            *members(generate, "generate", ("infill",)),
            *members(monitor, "tasks.monitor", ("watch", "watch_labels")),
            *members(task_settings, "tasks.task_settings", ("keep",)),
        ],
        "Inspection": [*members(inside, "inside", inside.__all__)],
        "View": [*methods(inside.View, "view")],
        "Tensors of a view": [
            *methods(inside.StackView, "view.encoder"),
            *methods(inside.LayerTensors, "view.attention"),
            *methods(inside.NamedTensor, "tensor"),
        ],
        "Tuned lens": [*methods(inside.TunedLens, "lens")],
        "N-gram model": [*methods(NGram, "ngram")],
        "Adapters": [*members(adapters, "adapters", ADAPTERS)],
    }


def page() -> str:
    parts = [
        f"## {title}\n\n" + "\n".join(entry.markdown for entry in entries)
        for title, entries in sections().items()
    ]
    return re.sub(r"[ \t]+$", "", "\n".join([HEAD, *parts]), flags=re.M)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(PAGE)
