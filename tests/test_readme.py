"""The README's Python runs as pasted, in both languages."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from measured import HEADS, filled  # noqa: E402


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_the_python_blocks_run_in_their_order(name, tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text("utf-8"), re.S)
    assert len(blocks) >= 5
    monkeypatch.chdir(tmp_path)
    place: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, name, "exec"), place)
    said = capsys.readouterr().out.splitlines()
    assert "ng" in said
    assert "tensors read from model.safetensors" in said[-2]
    assert said[-1] == "['heads.classify.out.weight']"
    assert (tmp_path / "runs" / "names" / "model" / "model.safetensors").is_file()


@pytest.mark.parametrize("name", HEADS)
def test_the_tables_are_those_of_the_last_results(name):
    text = (ROOT / name).read_text("utf-8")
    assert filled(name, text) == text
