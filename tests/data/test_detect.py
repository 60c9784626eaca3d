"""The layout of a file by its ending and content."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest

import glassformer as gf
from glassformer.data import DataSettings, Records
from glassformer.data.detect import detect, detected
from glassformer.errors import DataError

NAMES = {"text", "label", "source", "target"}
TABLE = 'title,kind\n"a, b",x\n"c; d",y\n'


def layout(path, **options):
    found = detect(path, **options)
    return found.format, found.delimiter, found.encoding, found.has_header


@pytest.mark.parametrize(
    ("name", "content", "plain", "found"),
    [
        ("a.csv", "text,label\na,b\n", "tsv", ("csv", None, "utf-8", True)),
        ("a.csv", "text;label\na, c;b\n", "tsv", ("csv", ";", "utf-8", True)),
        ("a.tsv", "text\tlabel\na\tb\n", "tsv", ("tsv", None, "utf-8", True)),
        ("a.txt", "text|label\na|b\n", "tsv", ("tsv", "|", "utf-8", True)),
        ("a.csv", "So, so.;bad\nNo, never.;bad\n", "tsv", ("csv", ";", "utf-8", False)),
        ("a.csv", "what, and why;kind\na;b\nc;d\n", "tsv", ("csv", ";", "utf-8", True)),
        ("a.csv", ",remark,mood\n0,fine,a\n1,poor,b\n", "tsv", ("csv", None, "utf-8", True)),
        ("a.csv", "0,1\nfine,a\npoor,b\n", "tsv", ("csv", None, "utf-8", True)),
        ("a.csv", "Is it good?,stars\nyes,1\nno,2\n", "tsv", ("csv", None, "utf-8", True)),
        ("a.csv", "It works.,good\nIt fails.,bad\n", "tsv", ("csv", None, "utf-8", False)),
        ("a.csv", "good,fine work\nbad,poor\ngood,nice\n", "tsv", ("csv", None, "utf-8", False)),
        ("a.csv", "1,fine work\n2,poor\n", "tsv", ("csv", None, "utf-8", False)),
        ("a.tsv", "Hallo\tHello\n", "parallel", ("parallel", None, "utf-8", True)),
        ("a.tsv", "source\ttarget\na\tb\n", "parallel", ("tsv", None, "utf-8", True)),
        ("a.txt", "Ada B-PER\n\nBen B-PER\n", "conll", ("conll", None, "utf-8", True)),
        ("a.tsv", "Ada\tB-PER\n\nBen\tB-PER\n", "conll", ("conll", None, "utf-8", True)),
        ("a.json", '{"data": [{"paragraphs": []}]}', "squad", ("squad", None, "utf-8", True)),
        ("a.json", '[\n{"text": "a"}\n]', "tsv", ("jsonl", None, "utf-8", True)),
        ("a.txt", '{"text": "a"}\n', "text", ("jsonl", None, "utf-8", True)),
        ("a.txt", "Once upon a time.\n", "text", ("text", None, "utf-8", True)),
    ],
)
def test_the_content_says_what_the_ending_leaves_open(tmp_path, name, content, plain, found):
    path = tmp_path / name
    path.write_text(content)
    assert layout(path, plain=plain, names=NAMES) == found
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    assert layout(packed, plain=plain, names=NAMES) == found


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("café, naïve\n", "cp1252"),
        ("wie schön das Wetter, größer für alle\n", "latin-1"),
        ("国王和王后坐在花园里\n", "gb18030"),
        ("好\n", "gb18030"),
        ("é\n" * 5, "utf-8"),
    ],
)
def test_the_encoding_is_found(tmp_path, text, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes(("text\n" + text).encode(encoding))
    same = {"latin-1": "cp1252"}.get(encoding, encoding)  # in these letters
    assert detect(path).encoding == same


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Привет, как дела сегодня", "cp1251"),
        ("我的卡丟了，請幫我", "big5"),
        ("カードをなくしました", "shift_jis"),
    ],
)
def test_an_encoding_that_is_not_clear_is_asked_for(tmp_path, text, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes(f"text,label\n{text},a\n".encode(encoding) * 3)
    with pytest.raises(DataError, match=r"encoding of .* is not clear; name it, as --encoding"):
        detect(path)
    assert detect(path, encoding=encoding).encoding == encoding
    with pytest.raises(gf.ConfigError, match="no encoding 'cp9999'"):
        detect(path, encoding="cp9999")


def test_a_line_for_excel_is_no_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sep=;\ntext;label\nfine;a\n")
    with pytest.raises(DataError, match=r"begins with 'sep=;', a line that only Excel reads"):
        detect(path)


def test_utf_8_with_damaged_bytes_is_no_other_encoding(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text\n很好的酒店，下次还来\n".encode() + b"\xff\n")
    assert detect(path).encoding == "utf-8"


@pytest.mark.parametrize(
    ("content", "rows"),
    [  # as pandas and Excel write it, and as others do
        ('text\tlabel\n"two\nlines"\tx\n', [{"text": "two\nlines", "label": "x"}]),
        ('text\tlabel\n"a ""b"" c"\tx\n', [{"text": 'a "b" c', "label": "x"}]),
        ('text\tlabel\n"a" b\tx\n', [{"text": '"a" b', "label": "x"}]),
        ('text\tlabel\n"a\tx\nb"\tx\n', [{"text": one, "label": "x"} for one in ('"a', 'b"')]),
    ],
)
def test_quotes_of_a_tsv_file_are_found(tmp_path, content, rows):
    path = tmp_path / "a.tsv"
    path.write_text(content)
    settings = detected(path, "tsv")
    records = Records(replace(settings, train=(str(path),)), "train").strict()
    assert [{k: v for k, v in record.items() if k != "where"} for record in records] == rows


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"PK\x03\x04\0\0", "is a zip archive or an office document"),
        ("a.csv", gzip.compress(b"text", mtime=0), "packed by gzip; give it the ending .gz"),
        ("a.txt", b"%PDF-1.7", "is a PDF; save its text"),
        ("a.csv", "text\n".encode("utf-16"), "UTF-16"),
        ("a.xlsx", b"PK", "is a spreadsheet; save it as CSV"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=said):
        detect(path)


def read(path):
    records = Records(DataSettings(train=(str(path),)), "train").strict()
    return [{k: v for k, v in record.items() if k != "where"} for record in records]


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_tables_are_read_with_the_delimiter_of_their_first_line(tmp_path, mark):
    path = tmp_path / "a.csv"
    path.write_text(f'text{mark}label\n"a, b"{mark}1\n')
    assert read(path) == [{"text": "a, b", "label": "1"}]


def test_an_array_of_objects_is_read_as_json_lines_are(tmp_path):
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": 2}]
    for indent in (None, 2):
        path = tmp_path / f"{indent}.json"
        path.write_text(json.dumps(rows, indent=indent))
        assert read(path) == rows
    path.write_text('[\n{"text": "a"},\n')
    with pytest.raises(gf.DataError, match="is not JSON"):
        read(path)


def test_a_short_text_has_pieces_that_can_be_held_out(tmp_path):
    path = tmp_path / "a.txt"
    text = "".join(f"This is sentence number {number}.\n" for number in range(60))
    path.write_text(text)
    settings = DataSettings(train=(str(path),), validation=0.1)
    parts = {
        split: "".join(record["text"] for record in Records(settings, split).strict())
        for split in ("train", "validation")
    }
    assert sorted("".join(parts.values()).splitlines()) == sorted(text.splitlines())
    assert 0.03 * len(text) < len(parts["validation"]) < 0.25 * len(text)


def test_very_many_brackets(tmp_path):
    (tmp_path / "a.jsonl").write_text("[" * 100_000)
    assert detect(tmp_path / "a.jsonl").format == "jsonl"
