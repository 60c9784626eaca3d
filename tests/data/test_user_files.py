"""Files as spreadsheets, editors and scripts write them: read as meant, or refused with the remedy.

A message names the file, the line and what to do.
"""

from __future__ import annotations

import codecs
import gzip
import json
import re

import pytest

from glassformer.data.data_config import DataSettings
from glassformer.data.files import likely_encoding
from glassformer.data.record import RecordError
from glassformer.data.records import Records
from glassformer.errors import DataError

ROWS = [("很好的酒店，下次还来", "好"), ("太贵了，房间也小", "差"), ("ça va déjà", "moyen")]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, content, encoding="utf-8"):
        data = content if isinstance(content, bytes) else content.encode(encoding)
        (tmp_path / name).write_bytes(data)
        return name

    return write


def records(*files, **settings):
    return list(Records(DataSettings(train=files, **settings), "train").strict())


def pairs(*files, **settings):
    return [(record["text"], record["label"]) for record in records(*files, **settings)]


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_one_table_in_many_notations(here, mark, end, bom):
    lines = [mark.join(("text", "label")), *(mark.join(row) for row in ROWS)]
    name = here("a.csv", bom + end.join(lines) + end)
    assert pairs(name, delimiter=mark) == ROWS
    blank = here("b.csv", bom + end.join([*lines, "", mark]) + end)  # a spreadsheet's last rows
    assert pairs(blank, delimiter=mark) == ROWS
    packed = here("c.csv.gz", gzip.compress((bom + end.join(lines)).encode()))
    assert pairs(packed, delimiter=mark) == ROWS


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_another_delimiter_is_named(here, mark):
    name = here("a.csv", mark.join(("text", "label")) + "\n" + mark.join(ROWS[0]) + "\n")
    shown = "\\\\t" if mark == "\t" else rf"\{mark}"
    with pytest.raises(DataError, match=rf'^a.csv:1: the header is one column, .* = "{shown}"\.$'):
        records(name, delimiter=",")
    with pytest.raises(DataError, match=r'a.tsv:1: .*data.delimiter = ","'):
        records(here("a.tsv", "text,label\na,b\n"), delimiter="\t")


def test_a_column_of_text_alone_needs_no_delimiter(here):
    assert [r["text"] for r in records(here("a.csv", 'text\none\n"two; and, three"\n'))] == [
        "one",
        "two; and, three",
    ]


def test_mixed_delimiters_are_rows_of_another_length(here):
    name = here("a.csv", "text,label\nfine,1\nbad;0\nso, so,1\ngood,1\n")
    with pytest.raises(DataError, match=r"^a.csv:3: this row has 1 columns, not 2 \(text, label\)"):
        records(name)
    assert pairs(name, on_error="skip") == [("fine", "1"), ("good", "1")]


def test_column_names_for_a_file_with_a_header(here):
    name = here("a.csv", " Text,label\nfine,1\n")
    with pytest.raises(DataError, match=r"^a.csv:1: this row is the header; leave data.column_na"):
        records(name, column_names=("text", "label"))
    assert pairs(here("b.csv", "fine,1\n"), column_names=("text", "label")) == [("fine", "1")]


@pytest.mark.parametrize(("form", "ending"), [("csv", "csv"), ("parquet", "parquet")])
@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_setting_that_names_no_column_of_the_file(here, tmp_path, form, ending, on_error):
    if form == "csv":
        here("a.csv", "review,stars\nfine,1\n")
    else:
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.Table.from_pylist([{"review": "fine", "stars": 1}])
        parquet.write_table(table, tmp_path / "a.parquet")
    settings = {"columns": {"text": "reviews"}, "on_error": on_error}
    said = r"no column 'reviews', which columns.text names; did you mean 'review'\? It has rev"
    with pytest.raises(DataError, match=said):
        records(f"a.{ending}", **settings)


def test_duplicate_and_damaged_headers(here):
    with pytest.raises(DataError, match=r"^a.csv:1: the header names a column twice .*rename one"):
        records(here("a.csv", "text,label,text\na,b,c\n"))
    bad = here("b.csv", b"te\xffxt,label\na,b\nc,d\n")
    for on_error in ("stop", "skip"):  # the first row does not become the header in its place
        with pytest.raises(DataError, match=r"^b.csv:1: the byte 0xff .*data.column_names"):
            records(bad, on_error=on_error)
    said = r"^c.csv:1: lines end with a carriage return alone \(convert the file to line feeds\)\.$"
    with pytest.raises(DataError, match=said):
        records(here("c.csv", "text,label\ra,b\rc,d"))


def test_unclosed_quotes_and_short_and_long_rows(here):
    name = here("a.csv", 'text,label\n"never closed,1\nshort\nlong,1,2\nfine,1\n')
    with pytest.raises(DataError, match=r"^a.csv:2: this is no row .*data.quoting = false"):
        records(name)
    found = list(Records(DataSettings(train=(name,)), "train"))
    errors = [str(one) for one in found if isinstance(one, RecordError)]
    assert [error.split(" ")[0] for error in errors] == ["a.csv:2:", "a.csv:3:", "a.csv:4:"]
    assert pairs(name, on_error="skip") == [("fine", "1")]


ENCODINGS = {
    "很好的酒店，下次还来,好": ("gb18030", "gb18030"),
    "a,b,c,d,e,f,g,h,i,好": ("gbk", "gb18030"),
    "ça va déjà,moyen": ("latin-1", "cp1252"),
    "Größe über alles,gut": ("cp1252", "cp1252"),
}


@pytest.mark.parametrize("line", ENCODINGS)
@pytest.mark.parametrize("form", ["csv", "jsonl", "text", "conll", "parallel"])
def test_a_wrong_encoding_names_the_likely_one(here, line, form):
    encoding, named = ENCODINGS[line]
    name = here(f"a.{form}", "text,label\n" + line + "\n", encoding)
    found = Records(DataSettings(train=(name,), format=form, document_boundary="line"), "train")
    (error,) = [str(one) for one in found if isinstance(one, RecordError) and one.line == 2]
    assert re.match(rf'a.{form}:2: the byte 0x.. .*data.encoding = "{named}"', error)
    if form == "csv":
        text, _, label = line.rpartition(",")
        if "," not in text:
            assert pairs(name, encoding=named) == [(text, label)]


def test_the_encoding_of_a_file_that_is_one_value(here):
    name = here("a.json", json.dumps({"data": [{"x": "很好的"}]}, ensure_ascii=False), "gb18030")
    with pytest.raises(DataError, match=r"^a.json:1: the byte 0x.. .*data.encoding = \"gb18030\""):
        records(name, format="squad")


def test_likely_encodings():
    chinese = "很好的酒店，下次还来"
    assert likely_encoding(chinese.encode("gb18030")) == "gb18030"
    assert likely_encoding(codecs.BOM_UTF16_LE + chinese.encode("utf-16-le")) == "utf-16"
    assert likely_encoding("déjà vu".encode("latin-1")) == "cp1252"
    damaged = chinese.encode() + b"\xff" + chinese.encode()
    assert likely_encoding(damaged) == "utf-8"


def test_damaged_bytes_in_the_right_encoding(here):
    data = "text,label\n很好的酒店,好\n".encode() + "很好的".encode()[:-1] + b",x\n"
    with pytest.raises(DataError, match=r"^a.csv:3: .*; the file is damaged here; correct it, or"):
        records(here("a.csv", data))


def test_blank_files_are_no_documents(here):
    here("a.txt", "one\n")
    here("b.txt", " \n\n")
    here("c.txt", "")
    assert [record["text"] for record in records("*.txt")] == ["one\n"]
    with pytest.raises(DataError, match=r"There are no records in data.train \(b.txt\)"):
        records("b.txt")
