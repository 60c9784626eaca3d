"""docs/tasks.md: its Python runs in its order, and its commands run on what that has made."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from glassformer.cli import main

GUIDE = (Path(__file__).parent.parent / "docs" / "tasks.md").read_text("utf-8")


def test_the_guide_runs_as_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    place: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE, re.S):
        exec(compile(block, "tasks.md", "exec"), place)
    said = capsys.readouterr().out
    assert said.startswith("good ") and re.search(
        r"^2026-01-26: bad rose from 3\d\.\d%", said, re.M
    )
    assert "LOC 北京 北京\nPER Ada Lovelace Ada Lovelace\n['B-PER', 'I-PER', 'O']\n" in said
    assert "New York\n['Alan Turing', 'New York']\n" in said
    assert (
        "Where is the station?\nGood morning. The book is new.\n\nWhere is the station?\n" in said
    )
    assert "\nLift broken\n" in said
    assert "the grass is green today" in said and "[0 1 2 3 4 5]" in said
    assert re.search(r"1\.txt 0 46 Nine carpenters", said)
    assert said.endswith("1.0 1.0\n1.0\n")
    for line in "".join(re.findall(r"```sh\n(.*?)```", GUIDE, re.S)).splitlines():
        before, _, command = line.partition("  #")[0].rpartition(" | ")
        piped = re.sub(r'^echo "(.*)"$', r"\1", before) if "echo" in before else ""
        piped = Path(before.split()[-1]).read_text() if before.startswith("cat") else piped
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped.encode())))
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code, line
        assert capsys.readouterr().out, line
