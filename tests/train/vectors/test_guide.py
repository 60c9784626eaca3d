"""docs/vectors.md: its commands and its Python run as pasted, in their order."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from glassformer.cli import main
from glassformer.cli.vectors import vectors

GUIDE = (Path(__file__).parents[3] / "docs" / "vectors.md").read_text("utf-8")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = "the king and a queen saw a man or a woman\n"
    Path("text.txt").write_text(line * 20)
    Path("questions.txt").write_text(": family\nman king woman queen\n")
    Path("pairs.tsv").write_text("king\tqueen\t8\nking\tor\t1\n")


def test_the_guide_runs(place, monkeypatch, capsys):
    commands = "".join(re.findall(r"```sh\n(.*?)```", GUIDE, re.S)).splitlines()
    assert len(commands) == 5
    for command in commands:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code, command
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.S)
    for block in blocks:
        exec(compile(block, "vectors.md", "exec"), {})
    assert "(50,)\n9 tokens start from vectors\n" in capsys.readouterr().out


def test_every_option_is_in_the_table():
    import typer

    train = typer.main.get_command(vectors).commands["train"]
    known = {option for one in train.params for option in one.opts if option.startswith("--")}
    rows = "".join(re.findall(r"^\| (`--.*?) \|", GUIDE, re.M))
    assert known - set(re.findall(r"`(--[\w-]+)`", rows)) == {"--out", "--device"}
