"""The reference pages are complete and up to date. (test_blocks.py compares the help texts.)"""

from __future__ import annotations

import re

import api
import typer
from blocks import ROOT

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
