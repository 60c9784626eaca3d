"""docs/reliability.md: its table is that of the committed records."""

from __future__ import annotations

import json
import runpy

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


def test_the_readers_of_files_have_a_row_and_a_table(tmp_path, monkeypatch):
    counts = {"read": 400, "refused": 599, "most_cpu_seconds": 0.5, "most_megabytes": 2.0}
    readers = {"wav": {"trials": 1000, **counts}, "midi": {"trials": 999, **counts}}
    about = {"seed": 7, "date": "2026-11-18", "python": "3.11", "torch": "2.13"}
    record = {**about, "trials": 1999, "readers": readers, "failures": ["midi 3"]}
    (tmp_path / "record.json").write_text(json.dumps(record))
    monkeypatch.setitem(TOOL["rows"].__globals__, "FUZZ", tmp_path / "record.json")
    rows = [*TOOL["rows"]()]
    assert rows[-1] == "| a damaged or hostile file to a reader | 2 readers | 1,999 | 1,998 |"
    assert "| wav | 1,000 | 400 | 599 | 1 | 0.5 | 2.0 |" in TOOL["fuzz_table"]()
