"""The guide's Python runs as pasted, and its table has every kind with its options."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from glassformer.adapters import KINDS

GUIDE = (Path(__file__).parent.parent.parent / "docs" / "adapters.md").read_text("utf-8")


def test_the_python_blocks_run_in_their_order(capsys):
    place: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.S)
    for block in blocks:
        exec(compile(block, "adapters.md", "exec"), place)
    assert len(blocks) == 5 and "numbers learn" in capsys.readouterr().out


def test_the_table_has_every_kind_and_only_options_that_there_are():
    rows = {
        kind: (name, set(re.findall(r"`(\w+)`", options)))
        for kind, name, options in re.findall(
            r"^\| `(\w+)` \| `(\w+)` \|.*\| (.*) \|$", GUIDE, re.M
        )
    }
    assert {kind: name for kind, (name, _) in rows.items()} == {
        kind: settings.__name__ for kind, settings in KINDS.items()
    }
    for kind, (_, options) in rows.items():
        known = {each.name for each in fields(KINDS[kind])} | {"both", "ffn"}
        assert options <= known, kind
