"""Readers of every format, with typical content of real files, and with invalid lines."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from glassformer.data.data_config import DataSettings
from glassformer.data.files import PIECE, TextFileReader, find_files, place_to_cut
from glassformer.data.readers import _between_blanks
from glassformer.data.record import RecordError
from glassformer.data.records import Records
from glassformer.errors import GlassformerError


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # so that places are short

    def write(name, content, encoding="utf-8"):
        data = content if isinstance(content, bytes) else content.encode(encoding)
        (tmp_path / name).write_bytes(data)
        return name

    return write


def read(*files, **settings):
    return list(Records(DataSettings(train=files, **settings), "train").strict())


def read_loosely(*files, **settings):
    """Records, and what was said about the others."""
    found = list(Records(DataSettings(train=files, **settings), "train"))
    errors = [str(one) for one in found if isinstance(one, RecordError)]
    return [one for one in found if not isinstance(one, RecordError)], errors


class TestText:
    def test_lines_end_at_line_feeds_only(self, write):
        name = write("a.txt", "\ufeffeins\r\n\r\n zwei\u2028drei \n\x0cvier\rfünf")
        assert read(name, document_boundary="line") == [
            {"text": "eins", "where": "a.txt:1"},
            {"text": " zwei\u2028drei ", "where": "a.txt:3"},
            {"text": "\x0cvier\rfünf", "where": "a.txt:4"},
        ]

    def test_documents_between_blank_lines(self, write):
        name = write("a.txt", "\n\nOne.\nTwo.\n \nThree.\n\n\n你好。")
        records = read(name, document_boundary="blank-line")
        assert [r["sentences"] for r in records] == [["One.", "Two."], ["Three."], ["你好。"]]
        assert [r["text"] for r in records] == ["One.\nTwo.", "Three.", "你好。"]
        assert [r["where"] for r in records] == ["a.txt:3", "a.txt:6", "a.txt:9"]
        assert all(r["begins"] and r["ends"] for r in records)

    def test_a_long_document_between_blank_lines_comes_in_pieces(self, write):
        name = write("a.txt", "aaaa\nbbbb\ncccc\ndddd\n\neeee\n")
        file_reader = TextFileReader(find_files([name]))
        records = list(_between_blanks(file_reader, file_reader.paths[0], "utf-8", size=5))
        assert [r["text"] for r in records] == ["aaaa\nbbbb", "cccc\ndddd", "eeee"]
        assert [(r["begins"], r["ends"]) for r in records] == [
            (True, False),
            (False, True),
            (True, True),
        ]

    @pytest.mark.parametrize("packed", [False, True])
    def test_files_are_documents(self, write, packed):
        text = "\ufeffÄ first\r\nlast"
        pack = gzip.compress if packed else bytes
        for name in ("b", "a"):
            write(f"{name}.txt.gz" if packed else f"{name}.txt", pack(text.encode()))
        records = read("*.txt*")
        assert [r["text"] for r in records] == ["Ä first\nlast"] * 2
        assert [r["where"][0] for r in records] == ["a", "b"]
        assert all(r["begins"] and r["ends"] for r in records)

    @pytest.mark.parametrize("chunk", range(1, 12))
    @pytest.mark.parametrize("size", [1, 2, 7, 1000])
    def test_pieces_do_not_depend_on_what_is_read_at_a_time(self, write, chunk, size):
        text = "eé漢😀\r\n\r\nzwei drei\rvier\n" * 3
        name = write("a.txt", "\ufeff" + text)
        file_reader = TextFileReader(find_files([name]))
        pieces = list(file_reader.pieces(file_reader.paths[0], "utf-8", size=size, chunk=chunk))
        whole = text.replace("\r\n", "\n").replace("\r", "\n")
        assert "".join(piece for _, piece, _ in pieces) == whole
        assert max(len(piece) for _, piece, _ in pieces) <= size
        assert [last for _, _, last in pieces] == [False] * (len(pieces) - 1) + [True]
        read = ""
        for line, piece, _ in pieces:
            assert line == read.count("\n") + 1
            read += piece
        assert pieces == list(
            file_reader.pieces(file_reader.paths[0], "utf-8", size=size, chunk=10_000)
        )

    def test_where_a_text_is_cut(self):
        assert place_to_cut("ab\ncd\n\nef", 7) == 3  # not between two line feeds
        assert place_to_cut("ab\n\ncd ef", 8) == 4
        assert place_to_cut("ab cd ef", 6) == 5  # the space goes with its word
        assert place_to_cut("abcdefgh", 6) == 6

    def test_other_encodings(self, write):
        name = write("a.txt", "café\n", "latin-1")
        assert read(name, encoding="latin-1")[0]["text"] == "café\n"
        assert read(name, encoding="latin-1", document_boundary="line")[0]["text"] == "café"
        with pytest.raises(GlassformerError, match="convert the files to UTF-8"):
            read(name, encoding="utf-16")
        with pytest.raises(GlassformerError, match="no encoding 'latin-99'"):
            read(name, encoding="latin-99")

    @pytest.mark.parametrize("documents", ["file", "lines", "blank"])
    def test_bytes_that_are_no_text(self, write, documents):
        name = write("a.txt", "one\ncaf\xe9\nthree\n", "latin-1")
        with pytest.raises(GlassformerError, match=r"a.txt:2: the byte 0xe9 .*data.encoding"):
            read(name, document_boundary=documents)
        records, errors = read_loosely(name, document_boundary=documents)
        assert len(errors) == 1
        text = "\n".join(record["text"] for record in records)
        assert "one" in text and "three" in text and "é" not in text


def test_json_lines(write):
    name = write("a.jsonl", '\ufeff{"text": "a\\nb", "n": [1]}\r\n\n{"text": "漢"}')
    assert read(name, format="jsonl") == [
        {"text": "a\nb", "n": [1], "where": "a.jsonl:1"},
        {"text": "漢", "where": "a.jsonl:3"},
    ]
    name = write("b.jsonl", '{"text": "a"}\n{"text": \n[1]\n{"text": "d"}\n')
    records, errors = read_loosely(name, format="jsonl")
    assert [r["text"] for r in records] == ["a", "d"]
    assert "b.jsonl:2: this is not JSON" in errors[0] and "on_error" not in errors[0]
    assert "b.jsonl:3: a JSON object was expected" in errors[1]
    with pytest.raises(
        GlassformerError, match=r"b.jsonl:2: .*; correct it, .*data\.on_error=skip\)"
    ):
        read(name, format="jsonl")
    assert len(read(name, format="jsonl", on_error="skip")) == 2


def test_columns_get_the_names_that_the_objective_knows(write):
    name = write("a.jsonl", '{"sentence": "a", "class": 1}\n{"sentence": "b"}\n')
    records, errors = read_loosely(
        name, format="jsonl", columns={"text": "sentence", "label": "class"}
    )
    assert records[0]["text"] == "a" and records[0]["label"] == 1 and "sentence" in records[0]
    assert "a.jsonl:2: there is no column 'class'" in errors[0] and "only sentence" in errors[0]


class TestTables:
    def test_csv(self, write):
        name = write(
            "a.csv",
            '\ufefflabel,text\r\n1,"He said ""no"", and\r\nleft"\r\n\r\n2,plain\r\n3,"ü, \u2028"',
        )
        assert read(name, format="csv") == [
            {"label": "1", "text": 'He said "no", and\nleft', "where": "a.csv:2"},
            {"label": "2", "text": "plain", "where": "a.csv:5"},
            {"label": "3", "text": "ü, \u2028", "where": "a.csv:6"},
        ]

    def test_csv_without_a_header(self, write):
        name = write("a.csv", "neutral;a b\nnegative;c\n")
        records = read(name, format="csv", column_names=("label", "text"), delimiter=";")
        assert [(r["label"], r["text"]) for r in records] == [("neutral", "a b"), ("negative", "c")]

    def test_tsv_takes_quotes_for_text(self, write):
        name = write("a.tsv", 'text\tlabel\n"So" it began\t0\n"\t1\n')
        records = read(name, format="tsv")
        assert [r["text"] for r in records] == ['"So" it began', '"']
        assert [r["where"] for r in records] == ["a.tsv:2", "a.tsv:3"]
        quoted = write("b.tsv", 'text\tlabel\n"a\tb"\t0\n')
        assert read(quoted, format="tsv", quoting=True)[0]["text"] == "a\tb"

    def test_a_field_may_be_long(self, write):
        name = write("a.csv", 'text\n"' + "word " * 50_000 + '"\n')
        assert len(read(name, format="csv")[0]["text"]) == 250_000

    def test_malformed_rows(self, write):
        name = write("a.csv", b'a,b\n1,2\n1,2,3\n"x" y,2\n1,caf\xe9\n5,6\n"never closed,7\n8,9\n')
        records, errors = read_loosely(name, format="csv")
        pairs = [(r["a"], r["b"]) for r in records]
        assert pairs == [("1", "2"), ("5", "6"), ("8", "9")]  # a quote swallows no other row
        assert "a.csv:3: this row has 3 columns, not 2 (a, b)" in errors[0]
        assert "a.csv:4: " in errors[1] and "data.quoting = false" in errors[1]
        assert "a.csv:5: the byte 0xe9" in errors[2]
        assert "a.csv:7: this is no row (unexpected end of data)" in errors[3]
        name = write("c.csv", b'a,b\n1,"open\n2,"two"\n\xff\n3,"three\nand more"\n4,"x"y\n5,6\n')
        records, errors = read_loosely(name, format="csv")
        assert [r["b"] for r in records] == ["two", "three\nand more", "6"]
        assert [r["where"] for r in records] == ["c.csv:3", "c.csv:5", "c.csv:8"]
        assert [error.split()[0] for error in errors] == ["c.csv:2:", "c.csv:4:", "c.csv:7:"]
        with pytest.raises(GlassformerError, match="names a column twice"):
            read(write("b.csv", "x,x\n1,2\n"), format="csv")

    def test_parquet(self, write, tmp_path):
        import pyarrow
        from pyarrow import parquet

        rows = [{"text": f"Zeile {i}", "words": ["a", "b"]} for i in range(2500)]
        parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
        records = read("a.parquet", format="parquet", columns={"label": "words"})
        assert len(records) == 2500
        assert records[2400]["text"] == "Zeile 2400" and records[2400]["label"] == ["a", "b"]
        assert records[2400]["where"] == "a.parquet: row 2401"
        with pytest.raises(GlassformerError, match=r"b.parquet is not a whole Parquet file"):
            read(write("b.parquet", "text"), format="parquet")


class TestTokens:
    def test_ids_in_pieces(self, write, tmp_path):
        ids = (np.arange(PIECE + 5) * 7 % 60_000).astype(np.uint16)
        np.save(tmp_path / "a.npy", ids)
        with gzip.open(tmp_path / "b.npy.gz", "wb") as stream:
            np.save(stream, ids[:3].astype(np.int64))
        first, second, other = read("a.npy", "b.npy.gz", format="tokens")
        assert np.array_equal(np.concatenate([first["tokens"], second["tokens"]]), ids)
        assert [one["begins"] for one in (first, second, other)] == [True, False, True]
        assert [one["ends"] for one in (first, second, other)] == [False, True, True]
        assert second["where"] == "a.npy, token 65,536" and other["tokens"].tolist() == [0, 7, 14]

    def test_what_is_no_list_of_ids(self, write, tmp_path):
        np.save(tmp_path / "rows.npy", np.zeros((2, 3), np.int32))
        np.save(tmp_path / "shares.npy", np.zeros(3))
        for name in ("rows.npy", "shares.npy", write("text.npy", "Once upon a time")):
            with pytest.raises(GlassformerError, match=f"{name} is not a list of token ids"):
                read(name, format="tokens")
        np.save(tmp_path / "cut.npy", np.zeros(300, np.uint16))
        (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:-9])
        with pytest.raises(GlassformerError, match=r"cut.npy ends before token 300"):
            read("cut.npy", format="tokens")


class TestConll:
    def test_sentences(self, write):
        name = write(
            "a.conll",
            "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\n\n"
            "Peter NNP I-NP B-PER\r\n-DOCSTART- -X- O O\n. . O O",
        )
        records = read(name, format="conll")
        assert [r["words"] for r in records] == [["EU", "rejects"], ["Peter"], ["."]]
        assert [r["tags"] for r in records] == [["I-ORG", "O"], ["B-PER"], ["O"]]
        assert [r["where"] for r in records] == ["a.conll:3", "a.conll:7", "a.conll:9"]
        assert read(name, format="conll", tag_column=1)[0]["tags"] == ["NNP", "VBZ"]

    def test_tabs_part_columns_with_spaces_in_them(self, write):
        name = write("a.conll", "1\tNew York\tS-LOC\n2\t#\tO\n")
        record = read(name, format="conll", word_column=1)[0]
        assert record["words"] == ["New York", "#"] and record["tags"] == ["S-LOC", "O"]

    def test_a_malformed_line_takes_its_sentence_along(self, write):
        name = write("a.conll", "a O\nb\nc O\n\nd O\n\nx\t\n")
        records, errors = read_loosely(name, format="conll")
        assert [r["words"] for r in records] == [["d"]]
        assert "a.conll:2: 'b' has no word in column 0 and tag in column -1" in errors[0]
        assert "a.conll:7" in errors[1]


class TestSquad:
    def test_both_versions(self, write):
        qas = [
            {
                "id": 7,
                "question": "Who?",
                "answers": [{"text": "Ann", "answer_start": 0}, {"text": "A", "answer_start": 0}],
            },
            {"id": "b", "question": "When?", "answers": [], "is_impossible": True},
            {"id": "c", "question": "Untold?"},
        ]
        articles = [{"title": "T", "paragraphs": [{"context": "Ann went.", "qas": qas}]}]
        name = write("a.json", "\ufeff" + json.dumps({"version": "v2.0", "data": articles}))
        one, two, three = read(name, format="squad")
        assert one["id"] == "7" and one["context"] == "Ann went." and one["question"] == "Who?"
        assert one["answers"][1] == {"text": "A", "answer_start": 0} and not one["impossible"]
        assert two["impossible"] and two["answers"] == [] and three["answers"] == []
        assert two["where"] == "a.json: data[0].paragraphs[0].qas[1]"

    def test_malformed(self, write):
        qas = [{"id": "a"}, {"id": "b", "question": "Q", "answers": [{"text": "x"}]}]
        articles = [{"paragraphs": [{"context": "c", "qas": qas}, {"context": "d"}]}]
        name = write("a.json", json.dumps({"data": articles}))
        records, errors = read_loosely(name, format="squad")
        assert records == []
        assert "data[0].paragraphs[0].qas[0]: there is no 'question'" in errors[0]
        assert "there is no 'answer_start'" in errors[1] and "paragraphs[1]" in errors[2]
        for content in ("{", "[]", '{"data": 3}'):
            with pytest.raises(GlassformerError, match=r"b.json is not a SQuAD file"):
                read(write("b.json", content), format="squad")


class TestParallel:
    def test_two_files(self, write):
        write("a.de", "eins\r\n\nzwei\u2028\n")
        write("a.en", "one\n\ntwo")
        assert read("a.de", "a.en", format="parallel") == [
            {"source": "eins", "target": "one", "where": "a.de:1"},
            {"source": "zwei\u2028", "target": "two", "where": "a.de:3"},
        ]
        write("b.de", "drei")
        write("b.en", "three")
        pairs = [(r["source"], r["target"]) for r in read("*.de", "*.en", format="parallel")]
        assert pairs[-1] == ("drei", "three")

    @pytest.mark.parametrize(("one", "other"), [("1\n2\n3\n", "1\n2\n"), ("1\n2\n", "1\n2\n3")])
    def test_files_of_different_length(self, write, one, other):
        write("a.de", one)
        write("a.en", other)
        said = rf"a.de has {len(one.split())} lines and a.en {len(other.split())}"
        with pytest.raises(GlassformerError, match=said):
            read("a.de", "a.en", format="parallel")
        with pytest.raises(GlassformerError, match="one file per language"):
            read("a.de", "a.en", "a.en", format="parallel")

    def test_one_file(self, write):
        name = write("fra.txt", "Go.\tVa !\tCC-BY\nHi.\n")
        records, errors = read_loosely(name, format="parallel")
        assert records[0]["source"] == "Go." and records[0]["target"] == "Va !"
        assert "fra.txt:2: there is no tab" in errors[0]


def test_files_that_are_not_there(write, tmp_path):
    with pytest.raises(GlassformerError, match=r"The data file no\*.txt does not exist"):
        read("no*.txt")
    with pytest.raises(GlassformerError, match=r'is a folder; ".*/\*" are the files in it'):
        read(str(tmp_path))
    with pytest.raises(GlassformerError, match=r"set data.validation"):
        Records(DataSettings(train=("x",)), "validation")
    with pytest.raises(GlassformerError, match=r"a.txt.gz cannot be unpacked"):
        read(write("a.txt.gz", b"this is no gzip file"))


def test_nothing_to_read(write):
    with pytest.raises(GlassformerError, match=r"There are no records in data.train \(a.txt\)\.$"):
        read(write("a.txt", "\n\n"), document_boundary="line")
    with pytest.raises(GlassformerError, match=r"None of 2 could be used; the first: a.jsonl:1: "):
        read(write("a.jsonl", "1\n2\n"), format="jsonl", on_error="skip")


def test_progress_is_told_in_bytes(write):
    write("a.txt", "one\n" * 5)
    write("b.txt", "two\n" * 7)
    records = Records(DataSettings(train=("a.txt", "b.txt")), "train")
    seen = [(record["where"], records.done) for record in records]
    assert seen == [("a.txt:1", 20), ("b.txt:1", 48)] and records.total == records.done == 48
