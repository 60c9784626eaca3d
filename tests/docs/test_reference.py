"""The reference pages are complete and up to date. (test_blocks.py compares the help texts.)"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import api
import typer
from blocks import ROOT

import glassformer
from glassformer.cli import app


def test_every_verb_has_its_help_on_the_page():
    group = typer.main.get_command(app)
    verbs = {""}
    for name, verb in group.commands.items():
        verbs.add(f"{name} ")
        verbs |= {f"{name} {inner} " for inner in getattr(verb, "commands", {})}
    page = (ROOT / "docs" / "commands.md").read_text("utf-8")
    assert set(re.findall(r"^glassformer ((?:\w+ )*)--help$", page, re.M)) == verbs


def test_the_docstrings_are_those_of_the_code():
    fresh = api.page()
    assert api.PAGE.read_text("utf-8") == fresh, "python tools/api.py writes it anew"
    assert "### gf.load\n\n`gf.load(source, " in fresh and "### model.look\n" in fresh


def public_functions() -> Iterator[api.Entry]:
    """Yields what the page lists, and the functions in `__all__` of every package."""
    for entries in api.sections().values():
        yield from entries
    for found in walk_packages(glassformer.__path__, "glassformer."):
        package = import_module(found.name) if found.ispkg else None
        for name in getattr(package, "__all__", ()):
            thing = getattr(package, name)
            if inspect.isfunction(inspect.unwrap(thing)):
                yield api.Entry(f"{found.name}.{name}", inspect.unwrap(thing))


def what_is_missing(entry: api.Entry) -> list[str]:
    """Returns the arguments that a docstring does not describe, and "Returns" if it lacks that."""
    section = entry.docstring.partition("Args:\n")[2]
    described = re.findall(r"^    \*{0,2}(\w+):", section, re.M)
    missing = [one.name for one in entry.parameters if one.name not in described]
    returned = inspect.signature(entry.thing).return_annotation if entry.is_function else None
    has_result = returned not in (None, "None", inspect.Signature.empty)
    if has_result and not re.search(r"^(Returns|Yields)(:$| )", entry.docstring, re.M):
        missing.append("Returns")
    return missing


def test_the_docstring_of_a_public_function_describes_its_arguments_and_its_return_value():
    entries = list(public_functions())
    assert len(entries) > 200
    found = {entry.name: what_is_missing(entry) for entry in entries if entry.docstring}
    assert {name: missing for name, missing in found.items() if missing} == {}
    assert [entry.name for entry in entries if not entry.docstring] == []


def test_an_incomplete_docstring_is_found():
    def double(x: int, times: int = 1) -> int:
        """Doubles a number.

        Args:
            x: The number.
        """
        return x * 2**times

    assert what_is_missing(api.Entry("double", double)) == ["times", "Returns"]
