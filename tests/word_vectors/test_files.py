"""Files in the formats of word2vec, gensim and GloVe; our own are equal to the byte."""

from __future__ import annotations

import gzip
import os
import struct

import numpy as np
import pytest

from glassformer.errors import GlassformerError
from glassformer.word_vectors import Vectors, read_vectors, write_vectors

WORDS = ["the", "naïve", "日本", "New_York"]
TABLE = np.array(
    [[1.0, -0.5], [1e-7, 0.1], [3.4028235e38, -0.0], [0.33333334, 2.5]], dtype=np.float32
)
TEXT = "4 2\nthe 1.0 -0.5\nnaïve 1e-07 0.1\n日本 3.4028235e+38 -0.0\nNew_York 0.33333334 2.5\n"


def binary(end: bytes) -> bytes:
    rows = (
        word.encode() + b" " + struct.pack("<2f", *row) + end
        for word, row in zip(WORDS, TABLE.tolist(), strict=True)
    )
    return b"4 2\n" + b"".join(rows)


def same(path) -> None:
    found = read_vectors(path)
    assert found.words == WORDS
    assert found.table.tobytes() == TABLE.tobytes()


def test_text_as_gensim_writes_it(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text(TEXT, "utf-8")
    same(path)
    write_vectors(tmp_path / "w.vec", Vectors(WORDS, TABLE))
    assert (tmp_path / "w.vec").read_bytes() == TEXT.encode()


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["gensim", "word2vec"])
def test_binary_of_both_programs(tmp_path, end):
    path = tmp_path / "v.bin"
    path.write_bytes(binary(end))
    same(path)
    write_vectors(tmp_path / "w.bin", read_vectors(path))
    assert (tmp_path / "w.bin").read_bytes() == binary(b"")


def test_word2vecs_own_text_has_a_space_before_the_end(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text(TEXT.replace("\n", " \n").replace("4 2 \n", "4 2\n"), "utf-8")
    same(path)


def test_without_a_first_line_and_with_spaces_in_words(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text(TEXT.removeprefix("4 2\n") + ". . . 7 8\n", "utf-8")
    found = read_vectors(path)
    assert found.words == [*WORDS, ". . ."]
    assert found[". . ."].tolist() == [7, 8]
    write_vectors(tmp_path / "w.txt", found)
    assert read_vectors(tmp_path / "w.txt").words == [*WORDS, "._._."]


def test_compressed(tmp_path):
    path = tmp_path / "v.bin.gz"
    path.write_bytes(gzip.compress(binary(b"\n")))
    same(path)


def test_many_words_in_small_reads(tmp_path, monkeypatch):
    monkeypatch.setattr("glassformer.word_vectors.files.PROBE", 512)
    rng = np.random.default_rng(0)
    vectors = Vectors([f"word{i}" for i in range(300)], rng.random((300, 9), np.float32))
    for name in ("v.txt", "v.bin"):
        write_vectors(tmp_path / name, vectors)
        found = read_vectors(tmp_path / name)
        assert found.words == vectors.words
        assert found.table.tobytes() == vectors.table.tobytes()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "0 vectors instead of some"),
        (b"3 2\na 1 2\nb 3 4\n", "2 vectors instead of 3"),
        (b"2 2\na 1 2\nb 3\n", ":3 is not a word and 2 numbers"),
        (b"a 1 2\nb 3 x\n", ":2 is not a word and 2 numbers"),
        (b"a\nb\n", ":1 is not a word and some numbers"),
        (b"2 2\na \0\0\x80\x3f\0\0\x80\x3fb \0\0", "ends after 1 of 2 vectors"),
        (b"1 1\n\xff \0\0\x80\x3f", "word 1 is not UTF-8"),
        (b"9999999999999 300\na \0\0\x80\x3f", "too short for 9,999,999,999,999 vectors of 300"),
        (b"2" * 5000 + b" 2\na \0\0\x80\x3f", "is not a word and"),
    ],
)
def test_files_that_are_broken(tmp_path, content, said):
    path = tmp_path / "v"
    path.write_bytes(content)
    with pytest.raises(GlassformerError, match=said):
        read_vectors(path)


def test_a_compressed_file_that_is_damaged(tmp_path):
    whole = gzip.compress(TEXT.encode() * 50)
    damaged = whole[:40] + bytes(byte ^ 255 for byte in whole[40:60]) + whole[60:]
    for content in (damaged, whole[:-20]):
        (tmp_path / "v.txt.gz").write_bytes(content)
        with pytest.raises(GlassformerError, match=r"v\.txt\.gz cannot be read: "):
            read_vectors(tmp_path / "v.txt.gz")


def test_places_that_cannot_be_read_or_written(tmp_path):
    with pytest.raises(GlassformerError, match="cannot be read: No such file"):
        read_vectors(tmp_path / "none.txt")
    with pytest.raises(GlassformerError, match="is a folder; name a file"):
        write_vectors(tmp_path, Vectors(WORDS, TABLE))
    with pytest.raises(GlassformerError, match="cannot be written"):
        write_vectors(tmp_path / "none" / "v.txt", Vectors(WORDS, TABLE))


def test_an_error_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_vectors(path, Vectors(["a", "\ud800"], TABLE[:2]))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["v.txt"]
