"""docs/reliability.md: its table is that of the committed records."""

from __future__ import annotations

import json
import runpy

import pytest
from blocks import ROOT

TOOL = runpy.run_path(str(ROOT / "tools/reliability.py"))


def test_the_table_is_up_to_date():
    page = TOOL["PAGE"].read_text("utf-8")
    assert page == TOOL["page"](page), "run `python tools/reliability.py`"


def test_every_kind_of_trial_was_counted_and_has_survived():
    record = json.loads(TOOL["RECORD"].read_text("utf-8"))
    assert set(record) == set(TOOL["WHAT"])
    for kind, counts in record.items():
        for name, (tried, survived) in counts.items():
            assert tried == survived > 0, f"{kind}: {name}"


def test_counts_are_summed_by_kind_and_name(tmp_path, monkeypatch):
    lines = [("a", "one", 3, 2), ("a", "one", 1, 1), ("b", "two", 1, 0)]
    keys = ("kind", "name", "trials", "survived")
    text = "".join(json.dumps(dict(zip(keys, line, strict=True))) + "\n" for line in lines)
    (tmp_path / "1.jsonl").write_text(text)
    (tmp_path / "2.jsonl").write_text(text)
    collect = TOOL["collect"]
    monkeypatch.setitem(collect.__globals__, "COUNTED", tmp_path)
    assert collect() == {"a": {"one": [8, 6]}, "b": {"two": [2, 0]}}


@pytest.mark.parametrize("there", [True, False])
def test_the_readers_of_files_have_a_row_if_they_were_counted(tmp_path, monkeypatch, there):
    counts = {"trials": 1000, "results": 400, "refused": 599, "failures": 1}
    said = {"seed": 7, "trials": 2000, "readers": {"wav": counts, "midi": counts}}
    if there:
        (tmp_path / "record.json").write_text(json.dumps(said))
    monkeypatch.setitem(TOOL["rows"].__globals__, "FUZZ", tmp_path / "record.json")
    row = "| a damaged or hostile file to a reader (seed 7) | 2 readers | 2,000 | 1,998 |"
    assert (row in TOOL["rows"]()) == there
