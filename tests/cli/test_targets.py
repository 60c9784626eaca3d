"""Outputs of every verb, as the commands themselves declare them: nothing that was there is lost.

A new verb joins by its parameters: each path is a `OutputPath`, or is listed here as an input.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import typer

from glassformer.cli import app
from glassformer.cli.output_paths import OutputPath, targets_in

INPUTS = {
    ("generate", "batch"), ("generate", "examples"), ("generate", "file"),
    ("index", "texts"), ("score", "file"), ("search", "folder"),
    ("vectors analogy", "file"), ("vectors convert", "file"), ("vectors evaluate", "analogy_file"),
    ("vectors evaluate", "file"), ("vectors evaluate", "similarity_file"),
    ("vectors nearest", "file"), ("vectors train", "texts"),
}  # fmt: skip

FOLDERS = {("transcribe", "output_dir")}  # in which files that exist are kept


def verbs(group: Any = None, before: str = "") -> Iterator[tuple[str, dict]]:
    """Every command with the annotations of its parameters."""
    for name, one in (group or typer.main.get_command(app)).commands.items():
        if hasattr(one, "commands"):
            yield from verbs(one, f"{before}{name} ")
        else:
            yield f"{before}{name}", get_type_hints(one.callback, include_extras=True)


def outputs() -> Iterator[tuple[str, str, OutputPath]]:
    for verb, hints in verbs():
        for name, hint in hints.items():
            for target in targets_in(hint):
                yield verb, name, target


def parameters(verb: str) -> list:
    group = typer.main.get_command(app)
    for word in verb.split():
        group = group.commands[word]
    return group.params


def words_of(verb: str, output: str, path: Path, given: Path) -> list[str]:
    """A command line with the same file for every argument that must be given."""
    words = verb.split()
    for one in parameters(verb):
        is_option = one.param_type_name == "option"
        if one.name == output:
            words += [one.opts[0], str(path)] if is_option else [str(path)]
        elif one.required or one.name in ("file", "batch", "text"):
            words += [one.opts[0], str(given)] if is_option else [str(given)]
    return words


OUTPUTS = [pytest.param(*one, id=f"{one[0]} {one[1]}") for one in outputs()]
READERS = [
    param for param in OUTPUTS if param.values[0] != "index"  # of which no file must be given
]  # fmt: skip


def test_every_path_is_an_input_or_an_output():
    found = {(verb, name) for verb, name, _ in outputs()}
    assert len(found) >= 10
    paths = {
        (verb, name)
        for verb, hints in verbs()
        for name, hint in hints.items()
        if "Path" in str(getattr(hint, "__origin__", hint)) and (verb, name) not in found
    }
    assert paths == INPUTS | FOLDERS
    for word in ("out", "output", "save", "plot", "svg", "html"):
        assert not [verb for verb, hints in verbs() if word in hints and (verb, word) not in found]


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.txt").write_text("A cat sleeps here .\n" * 40)
    (tmp_path / "other.txt").write_text("something else of the user")
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "link.txt").symlink_to("corpus.txt")
    os.link(tmp_path / "corpus.txt", tmp_path / "hard.txt")
    return tmp_path


def everything(folder: Path) -> dict[str, bytes | str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or path.is_file():
            name = str(path.relative_to(folder))
            found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes()
    return found


@pytest.mark.parametrize("name", ["corpus.txt", "link.txt", "hard.txt", "../{}/corpus.txt", "."])
@pytest.mark.parametrize(("verb", "output", "target"), READERS)
def test_an_output_that_is_an_input_is_refused(glassformer, home, verb, output, target, name):
    before = everything(home)
    words = words_of(verb, output, Path(name.format(home.name)), home / "corpus.txt")
    for more in ([], [] if target.continued else ["--overwrite"]):
        code, _, said = glassformer(*words, *more)
        assert code == 1 and "cannot be an output, because" in said
        assert everything(home) == before


@pytest.mark.parametrize(("verb", "output", "target"), OUTPUTS)
def test_a_file_of_the_user_is_not_replaced(glassformer, home, verb, output, target):
    before = everything(home)
    code, _, said = glassformer(*words_of(verb, output, home / "other.txt", home / "corpus.txt"))
    assert code == 1 and said.startswith("error: ") and "Traceback" not in said
    assert target.continued or "other.txt exists; name another file, or use --overwrite" in said
    assert everything(home) == before


@pytest.mark.parametrize(("verb", "output", "target"), READERS)
def test_the_folder_of_the_model_is_no_output(glassformer, home, verb, output, target):
    before = everything(home)
    code, _, _ = glassformer(*words_of(verb, output, home / "model", home / "model"))
    assert code == 1 and everything(home) == before
    if not target.continued:
        inside = words_of(verb, output, home / "model/config.json", home / "model")
        code, _, said = glassformer(*inside, "--overwrite")
        assert code == 1 and "config.json is a file of" in said and everything(home) == before


def test_texts_are_not_an_index(glassformer, home):
    (home / "notes").mkdir()
    (home / "notes/a.txt").write_text("mine")
    before = everything(home)
    for name in ("notes", "."):
        words = ("index", name, "--model", "model", "--texts", "notes")
        code, _, said = glassformer(*words)
        assert code == 1 and "cannot be an output, because" in said and everything(home) == before


def test_a_pattern_names_inputs_too(glassformer, home):
    before = everything(home)
    words = ("embed", "model", "--file", "*.txt", "--out", "corpus.txt", "--overwrite")
    code, _, said = glassformer(*words)
    assert code == 1 and "cannot be an output, because" in said and everything(home) == before


def test_two_outputs_are_two_files(glassformer, home):
    words = ("watch", "model", "--file", "corpus.txt", "--svg", "new", "--html", "new")
    code, _, said = glassformer(*words)
    assert code == 1 and "cannot be an output, because" in said and not (home / "new").exists()


def test_overwrite_replaces_what_is_no_input(glassformer, home):
    words = (
        "vectors",
        "corpus.txt",
        "--out",
        "other.txt",
        "--vector-size",
        "4",
        "--min-count",
        "1",
    )
    assert glassformer(*words)[0] == 1
    assert (home / "other.txt").read_text() == "something else of the user"
    assert glassformer(*words, "--overwrite")[0] == 0
    assert (home / "other.txt").read_text().startswith("5 4\n")
    assert glassformer("vectors", "convert", "other.txt", "new.bin")[0] == 0
    code, _, said = glassformer("vectors", "convert", "other.txt", "new.bin")
    assert code == 1 and "new.bin exists" in said


def test_predictions_are_not_replaced_where_no_output_is_named(glassformer, home):
    (home / "predictions.json").write_text("mine")
    code, _, said = glassformer("answer", "model", "--squad", "corpus.txt")
    assert code == 1 and "predictions.json exists" in said
    assert (home / "predictions.json").read_text() == "mine"


def test_results_of_another_input_are_not_cut_short(glassformer, tmp_path):
    """Also a file of one line without an end, which could be half a result."""
    (tmp_path / "in.jsonl").write_text('"ROMEO:"\n')
    (tmp_path / "out.jsonl.part").write_text("mine")
    words = ("generate", "shakespeare", "--batch", str(tmp_path / "in.jsonl"))
    words += ("--max-new-tokens", "2", "--out")
    for text in ("mine", "mine\n", '{"line"', '{"line": 1}\n'):
        (tmp_path / "mine").write_text(text)
        code, _, said = glassformer(*words, str(tmp_path / "mine"))
        if text != '{"line"':  # with which every result begins
            assert code == 1 and "choose another output" in said
            assert (tmp_path / "mine").read_text() == text
    for _ in range(2):  # the same command goes on with what is its own
        assert glassformer(*words, str(tmp_path / "out.jsonl"))[0] == 0
        assert json.loads((tmp_path / "out.jsonl").read_text())["line"] == 1
    assert (tmp_path / "out.jsonl.part").read_text() == "mine"
