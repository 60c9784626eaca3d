"""docs/inside.md runs as pasted."""

from __future__ import annotations

import re
from pathlib import Path

import glassformer as gf
from glassformer.inside.names import names_of

GUIDE = (Path(__file__).parent.parent.parent / "docs" / "inside.md").read_text("utf-8")


def test_the_python_blocks_run_in_their_order(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.S)
    place: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "inside.md", "exec"), place)
    assert len(blocks) == 5 and capsys.readouterr().out.strip()
    assert (tmp_path / "view.html").stat().st_size > 10_000


def test_every_array_of_the_table_is_there():
    view = gf.load("shakespeare").look("ROMEO:")
    rows = re.findall(r"^\| (`view.*?) \| (.*?) \|$", GUIDE, re.M)
    assert len(rows) >= 7
    for names, axes in rows:
        for name in re.findall(r"`view\.(\w+)`", names):
            found = getattr(view, name)
            shown = found[:].axes if hasattr(found, "layers") else found.axes
            assert shown[0] == re.split("[,;]", axes)[0] and len(shown) >= 2, name
    assert "decoder.blocks.3.ffn_pre" in names_of(view.model.spec)
