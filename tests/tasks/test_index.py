"""The index on disk: added and removed passages, and resuming after an interruption."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.errors import GlassformerError
from glassformer.tasks.search import nearest
from glassformer.tasks.search.index import Added, IndexRows
from glassformer.tasks.search.passages import Passage

WIDTH = 6
HEADER = {"width": WIDTH, "kept": "float32"}


def vectors(count: int, seed: int) -> np.ndarray:
    found = np.random.default_rng(seed).normal(size=(count, WIDTH)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def added(file: str, count: int, seed: int = 0, whole: bool = True, start: int = 0) -> Added:
    own = [Passage(i, i + 5, f"{file} é {i}") for i in range(start, start + count)]
    return Added(file, f"digest-{seed}", own, vectors(count, seed + start), whole)


def test_what_is_added_is_found_again(tmp_path):
    rows = IndexRows.create(tmp_path / "i", HEADER)
    rows.add([added("a", 3, 1), added("b", 4, 2)])
    rows.add([added("c", 0, 3)])
    again = IndexRows.open(tmp_path / "i")
    assert (again.total, again.live, set(again.entries)) == (7, 7, {"a", "b", "c"})
    assert again.files_of(range(7)) == ["a"] * 3 + ["b"] * 4
    assert again.passage(4) == Passage(1, 6, "b é 1")
    np.testing.assert_array_equal(again.vectors[:3], vectors(3, 1))


def test_a_file_that_changed_replaces_its_rows(tmp_path):
    rows = IndexRows.create(tmp_path / "i", HEADER)
    rows.add([added("a", 3, 1), added("b", 4, 2)])
    rows.add([added("a", 2, 5)])
    rows.forget(["b"])
    for seen in (rows, IndexRows.open(tmp_path / "i")):
        assert seen.live == 2 and set(seen.entries) == {"a"}
        found = seen.nearest(vectors(1, 2), 10)[0]
        assert sorted(row for _, row in found) == [7, 8]  # none of those that are gone


def test_many_dead_rows_are_left_behind(tmp_path):
    rows = IndexRows.create(tmp_path / "i", HEADER)
    rows.add([added("a", 3, 1), added("b", 2, 2, whole=False), added("c", 0, 3)])
    rows.add([added("a", 2, 5)])
    rows.compact()
    assert rows.total == 7, "three of seven are not many"
    rows.add([added("a", 1, 6)])
    rows.compact()
    for seen in (rows, IndexRows.open(tmp_path / "i")):
        assert seen.total == seen.live == 3
        assert not seen.entries["b"].whole and seen.entries["a"].whole and seen.entries["c"].whole
        own = zip(seen.files_of(range(3)), range(3), strict=True)
        texts = {file: seen.passage(row).text for file, row in own}
        assert texts == {"a": "a é 0", "b": "b é 1"}
    assert [path.name for path in (tmp_path / "i").glob("rows-*")] == ["rows-2"]
    np.testing.assert_array_equal(rows.vectors[rows.entries["a"].rows[0][0]], vectors(1, 6)[0])


@pytest.mark.parametrize("name", ["vectors.bin", "places.bin", "texts.bin", "journal.jsonl"])
@pytest.mark.parametrize("stop", ["before", "half"])
def test_stopped_anywhere_it_is_as_before(tmp_path, name, stop, monkeypatch):
    """The process dies at, or in the middle of, any of the writes."""
    rows = IndexRows.create(tmp_path / "i", HEADER)
    rows.add([added("a", 3, 1)])
    real = IndexRows._append

    def killed(self, file, at, content):
        if file == name:
            if stop == "half":
                real(self, file, at, content[: len(content) // 2])
            raise KeyboardInterrupt
        real(self, file, at, content)

    monkeypatch.setattr(IndexRows, "_append", killed)
    with pytest.raises(KeyboardInterrupt):
        rows.add([added("b", 4, 2)])
    monkeypatch.undo()
    again = IndexRows.open(tmp_path / "i")
    assert again.live == 3 and set(again.entries) == {"a"}
    again.add([added("c", 2, 4)])
    last = IndexRows.open(tmp_path / "i")
    assert last.files_of(range(5)) == ["a"] * 3 + ["c"] * 2
    assert [last.passage(row).text for row in (0, 3, 4)] == ["a é 0", "c é 0", "c é 1"]
    np.testing.assert_array_equal(last.vectors[3:], vectors(2, 4))


def test_parts_of_a_file_add_up(tmp_path):
    rows = IndexRows.create(tmp_path / "i", HEADER)
    rows.add([added("a", 2, 1, whole=False)])
    rows.add([added("b", 1, 2)])
    assert not IndexRows.open(tmp_path / "i").entries["a"].whole
    rows.add([added("a", 3, 1, start=2)])
    entry = IndexRows.open(tmp_path / "i").entries["a"]
    assert entry.whole and entry.count == 5 and entry.rows == [(0, 2), (3, 3)]


@pytest.mark.parametrize("kept", ["float16", "float32"])
@pytest.mark.parametrize("rows_a_block", [1, 3, 1000])
def test_the_nearest_are_those_of_all(tmp_path, monkeypatch, kept, rows_a_block):
    monkeypatch.setattr(nearest, "BLOCK", rows_a_block * 4 * WIDTH)
    rows = IndexRows.create(tmp_path / "i", {**HEADER, "kept": kept})
    rows.add([added("a", 20, 1), added("b", 20, 2), added("c", 20, 3)])
    rows.forget(["b"])
    asked = 3 * vectors(5, 9)  # of any length
    live = [*range(20), *range(40, 60)]
    cosines = (asked / 3) @ rows.vectors.astype(np.float32).T
    for query, found in enumerate(rows.nearest(asked, 7)):
        expected = sorted(live, key=lambda row: -cosines[query, row])[:7]
        assert [row for _, row in found] == expected
        np.testing.assert_allclose([s for s, _ in found], cosines[query, expected], atol=1e-6)
    assert len(rows.nearest(asked, 100)[0]) == 40


def test_equal_ones_come_in_their_order(tmp_path):
    rows = IndexRows.create(tmp_path / "i", HEADER)
    one = added("a", 1, 1)
    rows.add([Added(name, "d", one.passages, one.vectors, True) for name in "abcdefgh"])
    assert [row for _, row in rows.nearest(one.vectors, 3)[0]] == [0, 1, 2]


def test_one_writer_at_a_time(tmp_path):
    rows = IndexRows.create(tmp_path / "i", HEADER)
    other = IndexRows.open(tmp_path / "i")
    with (
        rows.writing(),
        pytest.raises(GlassformerError, match="Another process is adding"),
        other.writing(),
    ):
        pass


def test_what_is_no_index(tmp_path):
    with pytest.raises(GlassformerError, match="contains no index"):
        IndexRows.open(tmp_path)
    (tmp_path / "x.txt").write_text("x", "utf-8")
    with pytest.raises(GlassformerError, match="exists and is not an index"):
        IndexRows.create(tmp_path, HEADER)
    (tmp_path / "header.json").write_text("{}", "utf-8")
    with pytest.raises(GlassformerError, match="not the header of a known kind"):
        IndexRows.open(tmp_path)
    rows = IndexRows.create(tmp_path / "i", HEADER)
    rows.add([added("a", 3, 1)])
    (tmp_path / "i" / "rows-1" / "vectors.bin").write_bytes(b"short")
    with pytest.raises(GlassformerError, match=r"vectors\.bin is truncated; make the index again"):
        IndexRows.open(tmp_path / "i")
