"""Records from files and from Python values, with invalid ones among them."""

from __future__ import annotations

import pytest

from glassformer.data.files import PIECE
from glassformer.data.sources import RecordSource
from glassformer.errors import ConfigError, DataError


def test_a_text_file_is_one_record(tmp_path):
    text = "some words\n" * (2 * PIECE // 11 + 1)
    paths = [tmp_path / "long.txt", tmp_path / "short.txt"]
    paths[0].write_text(text)
    paths[1].write_text("few")
    found = list(RecordSource(paths, default_format="text"))
    assert [record["text"] for record in found] == [text, "few"]


def test_a_text_file_with_invalid_bytes_is_left_out_as_a_whole(tmp_path):
    paths = [tmp_path / "bad.txt", tmp_path / "good.txt"]
    paths[0].write_bytes(b"one\n\xff two\n" + b"x" * 2 * PIECE + b"\xff")
    paths[1].write_text("good")
    source = RecordSource(paths, default_format="text", on_error="skip")
    assert [record["text"] for record in source] == ["good"]
    assert len(source.skipped) == 1 and "bad.txt:2: the byte 0xff" in source.skipped[0]
    with pytest.raises(DataError, match=r"bad.txt:2: .*on_error skip") as raised:
        list(RecordSource(paths, default_format="text"))
    assert (str(raised.value.path), raised.value.line) == (str(paths[0]), 2)


def test_the_suffix_determines_the_format(tmp_path):
    for name in ("a.csv", "a.tsv"):
        mark = "," if name == "a.csv" else "\t"
        (tmp_path / name).write_text(f"text{mark}label\nfine{mark}good\n")
        (record,) = RecordSource(tmp_path / name, columns={"class": "label"})
        assert (record["text"], record["class"]) == ("fine", "good")
    with pytest.raises(ConfigError, match="no format 'table'"):
        RecordSource(tmp_path / "a.csv", format="table")


def test_given_records_have_their_index_as_location():
    source = RecordSource([{"text": "a"}])
    assert list(source) == [{"where": "record 0", "text": "a"}]
    source = RecordSource(iter([{"text": "a"}, 5]), on_error="skip")
    assert len(list(source)) == 1
    assert source.skipped == ["record 1: a record is a dict, not int."]
