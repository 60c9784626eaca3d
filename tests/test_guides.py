"""The guides' Python runs as pasted, their commands are understood, and their tables are whole."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from glassformer.cli import main
from glassformer.generate.knobs import DEFAULTS

GUIDE = (Path(__file__).parent.parent / "docs" / "generate.md").read_text("utf-8")


def test_the_python_blocks_run_in_their_order(capsys):
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.S)
    assert len(blocks) >= 9
    place: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "generate.md", "exec"), place)
    said = capsys.readouterr().out
    assert " crown" in said
    assert re.search(r"^ (yes|no), my (lord|lady)\.$", said, re.M)


def commands() -> list[str]:
    blocks = "".join(re.findall(r"```sh\n(.*?)```", GUIDE, re.S))
    lines = [line.partition("  #")[0] for line in blocks.splitlines()]
    return [line for line in lines if line.startswith("glassformer") and len(shlex.split(line)) > 3]


@pytest.mark.parametrize("command", commands())
def test_the_commands_run(command, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "play.txt").write_text("To be, or not to be, that is the question. " * 9)
    (tmp_path / "in.jsonl").write_text('"ROMEO:"\n')
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert capsys.readouterr().out or (tmp_path / "out.jsonl").read_text()


def test_every_knob_is_in_the_table_with_its_default():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", GUIDE, re.M)
    assert dict(rows) == {name: str(value) for name, value in DEFAULTS.items()}
