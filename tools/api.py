"""Writes docs/api.md of the docstrings of what users call.

    python tools/api.py

`tests/docs/test_reference.py` sees whether it is fresh.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import glassformer as gf
from glassformer import adapters, generate, inside
from glassformer.evaluate.evaluate import evaluate
from glassformer.model_tasks import TextTasks
from glassformer.tasks import monitor, task_settings
from glassformer.train.trainer import train

PAGE = Path(__file__).parent.parent / "docs" / "api.md"
CALLABLE = {"train": train, "evaluate": evaluate}  # which can be called themselves
ADAPTERS = (*(kind.__name__ for kind in adapters.KINDS.values()), "penalty", "after_step")
HEAD = """# Python

What there is to call, in the words of the code: made by `python tools/api.py`, and held to it by a
test. The guides have an example of each. Bad input is always a `GlassformerError`, a `ValueError`
whose text names the thing and the way out.
"""


def entry(name: str, thing: Any, after: str = "") -> str:
    """How it is called, and what its docstring says, without the examples."""
    said = (inspect.getdoc(thing) or "").partition("\n\n>>>")[0].partition("\n>>>")[0]
    if not said:
        raise ValueError(f"{name} says nothing of itself")
    shown = f"`{name}{after}`\n\n" if after else ""
    return f"### {name}\n\n{shown}{said.strip()}\n"


def called(thing: Callable[..., Any]) -> str:
    """The parameters by their names and defaults."""
    shown = []
    for one in inspect.signature(thing).parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and "*" not in "".join(shown):
            shown.append("*")
        default = "" if one.default is one.empty else f"={one.default!r}"
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        shown.append(stars + one.name + default)
    return f"({', '.join(shown)})"


def functions() -> Iterator[str]:
    for name in sorted(gf.__all__):
        thing = CALLABLE.get(name, getattr(gf, name))
        if inspect.isfunction(thing):
            yield entry(f"gf.{name}", thing, called(thing))


def methods(kind: type, word: str) -> Iterator[str]:
    for name, thing in vars(kind).items():
        if name.startswith("_"):
            continue
        if inspect.isfunction(thing):
            yield entry(f"{word}.{name}", thing, called(thing))
        elif isinstance(thing, property):
            yield entry(f"{word}.{name}", thing.fget)
        elif isinstance(thing, cached_property):
            yield entry(f"{word}.{name}", thing.func)


def members(module: Any, word: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        thing = getattr(module, name)
        if inspect.isfunction(thing):
            yield entry(f"{word}.{name}", thing, called(thing))
        elif inspect.isclass(thing) or inspect.ismodule(thing):
            yield entry(f"{word}.{name}", thing)


def page() -> str:
    sections = {
        "Functions": functions(),
        "Classes": (
            entry(f"gf.{name}", getattr(gf, name))
            for name in sorted(gf.__all__)
            if inspect.isclass(getattr(gf, name))
        ),
        "Model": chain(methods(gf.Model, "model"), methods(TextTasks, "model")),
        "Tokenizer": methods(gf.Tokenizer, "tokenizer"),
        "Tasks": chain(
            members(generate, "generate", ("infill",)),
            members(monitor, "tasks.monitor", ("watch", "watch_labels")),
            members(task_settings, "tasks.task_settings", ("keep",)),
        ),
        "Looking inside": members(inside, "inside", inside.__all__),
        "Adapters": members(adapters, "adapters", ADAPTERS),
    }
    parts = [f"## {title}\n\n" + "\n".join(entries) for title, entries in sections.items()]
    return re.sub(r"[ \t]+$", "", "\n".join([HEAD, *parts]), flags=re.M)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(PAGE)
