"""Printed results: aligned columns, or lines of JSON."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from rich.cells import cell_len

from glassformer.cli import printing
from glassformer.cli.input_records import InputRecords
from glassformer.cli.printing import Column, ResultRows, fit_cell, progress

COLUMNS = Column("label", 6), Column("p", 5, right=True), Column("text")


def test_columns_at_a_terminal(capsys, monkeypatch, terminal):
    monkeypatch.setenv("COLUMNS", "40")
    rows = ResultRows(COLUMNS, as_json=False)
    rows.add(("good", "0.9", "short [bold]"), {})
    rows.add(("excellent", "10.25", "a text that is\nfar too long for its place"), {})
    assert capsys.readouterr().out.splitlines() == [
        "label       p  text",
        "good      0.9  short [bold]",
        "excel…  10.25  a text that is far too l…",
    ]


def test_a_file_has_whole_cells_between_tabs(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "10")
    rows = ResultRows(COLUMNS, as_json=False)
    cells = "excellent", "", "好看的电影" * 40 + "\nline\ttab"
    rows.add(cells, {})
    head, row = capsys.readouterr().out.splitlines()
    assert head == "label\tp\ttext"
    assert row.split("\t") == ["excellent", "", "好看的电影" * 40 + " line tab"]


def test_wide_letters_take_two_columns():
    for text in ("汉字汉字汉字", "naïve", "👍👍👍👍"):
        for right in (False, True):
            assert cell_len(fit_cell(text, 7, right)) == 7


def test_one_place_makes_bars():
    """rich's live displays redirect standard output; `progress_bar` says that they do not."""
    package = Path(printing.__file__).parent.parent
    found = {
        path.name
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rich")
        if {one.name for one in node.names} & {"Live", "Progress", "Status", "track"}
    }
    assert found == {"printing.py"}


def test_json_for_programs_at_once(capsys):
    rows = ResultRows(COLUMNS, as_json=True)
    rows.add(("", "", ""), {"text": "汉\ud800", "p": 0.25})
    line = capsys.readouterr().out
    assert "汉" in line and json.loads(line) == {"text": "汉\ud800", "p": 0.25}


def test_progress_passes_results_on_and_is_quiet_in_a_pipe(capsys, tmp_path):
    with progress(InputRecords("one"), "classifying") as passed:
        assert list(passed([1, 2])) == [1, 2]
    assert capsys.readouterr().err.strip() == ""


def test_an_indent_stays_and_what_must_be_read_whole_is(capsys, monkeypatch, terminal):
    monkeypatch.setenv("COLUMNS", "30")
    rows = ResultRows((Column("", 8), Column("alerts", whole=True)), as_json=False)
    rows.add(("  PER\tx", "bad rose from 30.3% (379 of 1,250)"), {})
    assert capsys.readouterr().out.splitlines()[1] == "  PER x   bad rose from 30.3% (379 of 1,250)"
