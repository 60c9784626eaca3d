"""The tables of the guides list everything that exists, and nothing else."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import typer

import glassformer as gf
from glassformer.adapters import KINDS
from glassformer.cli.vectors import vectors
from glassformer.generate.config import DEFAULTS
from glassformer.inside.capture.names import names_of

DOCS = Path(__file__).parent.parent.parent / "docs"


def text_of(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def test_files_that_pages_name_are_there():
    folders = "bench|docs|glassformer|notebooks|page|recipes|tests|tools"
    named = re.compile(rf"`((?:{folders})/[\w./*-]+)`")
    elsewhere = {
        "tools/analysis/",  # in TransformerLens
        "glassformer/families/starcoder2.py",  # which the reader makes
        "glassformer/zoo/NAME/README.md",  # for any name
        "glassformer/page/handlers/NAME.py",
        "glassformer/page/handlers/norms.py",  # the files of a worked example
        "page/src/panels/norms/Panel.svelte",
        "page/src/panels/norms/texts.ts",
        "tests/page/test_norms.py",
        "page/src/protocol.ts",  # of version 0.1, in the changelog
    }
    pages = [*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")]
    found = {name for page in pages for name in named.findall(page.read_text("utf-8"))}
    assert len(found) > 40
    missing = {name for name in found if not list(DOCS.parent.glob(name.rstrip("/")))}
    assert missing == elsewhere


def test_every_knob_with_its_default():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", text_of("generate.md"), re.M)
    assert dict(rows) == {name: str(value) for name, value in DEFAULTS.items()}


def test_every_option_of_vectors():
    train = typer.main.get_command(vectors).commands["train"]
    known = {option for one in train.params for option in one.opts if option.startswith("--")}
    rows = "".join(re.findall(r"^\| (`--.*?) \|", text_of("vectors.md"), re.M))
    assert known - set(re.findall(r"`(--[\w-]+)`", rows)) == {"--out", "--overwrite", "--device"}


def test_every_kind_of_adapter_and_only_options_that_there_are():
    found = re.findall(r"^\| `(\w+)` \| `(\w+)` \|.*\| (.*) \|$", text_of("adapters.md"), re.M)
    rows = {kind: (name, set(re.findall(r"`(\w+)`", options))) for kind, name, options in found}
    assert {kind: name for kind, (name, _) in rows.items()} == {
        kind: settings.__name__ for kind, settings in KINDS.items()
    }
    for kind, (_, options) in rows.items():
        known = {each.name for each in fields(KINDS[kind])} | {"both", "ffn"}
        assert options <= known, kind


def test_every_array_of_a_view():
    view = gf.load("shakespeare").look("ROMEO:")
    rows = re.findall(r"^\| (`view.*?) \| (.*?) \|$", text_of("inside.md"), re.M)
    assert len(rows) >= 7
    for names, axes in rows:
        for name in re.findall(r"`view\.(\w+)`", names):
            found = getattr(view, name)
            shown = found[:].axes if hasattr(found, "layers") else found.axes
            assert shown[0] == re.split("[,;]", axes)[0] and len(shown) >= 2, name
    assert "decoder.blocks.3.ffn_pre" in names_of(view.model.spec)
