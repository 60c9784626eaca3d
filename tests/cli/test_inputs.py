"""The inputs of verbs: every kind of source, and every kind of error."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys

import pytest
import typer

from glassformer.cli.input_records import InputRecords, field_of
from glassformer.errors import GlassformerError


@pytest.fixture
def pipe(monkeypatch):
    def put(content: bytes):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), "utf-8"))

    return put


def texts(inputs: InputRecords, field: str = "text") -> list[str]:
    return [r[field] for r in inputs]


def test_a_word_is_a_text():
    assert texts(InputRecords("Good.")) == ["Good."]
    with pytest.raises(GlassformerError, match="one of TEXT and --file"):
        InputRecords("Good.", ["x"])


def test_standard_input_and_files_by_line_or_whole(tmp_path, pipe):
    content = b"\xef\xbb\xbfone\r\ntwo\n\nfour"
    pipe(content)
    assert texts(InputRecords()) == ["one", "two", "", "four"]
    pipe(content)
    assert texts(InputRecords("-", whole=True)) == ["one\ntwo\n\nfour"]
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"five\n"))
    both = InputRecords(None, [str(tmp_path / "*.txt*")])
    assert texts(both) == ["one", "two", "", "four", "five"]
    assert both.done == both.total > 0
    assert texts(InputRecords(None, [str(tmp_path / "a.txt")], whole=True)) == ["one\ntwo\n\nfour"]
    (tmp_path / "long.txt").write_text("x y\n" * 40_000)
    assert texts(InputRecords(None, [str(tmp_path / "long.txt")], whole=True)) == [
        "x y\n" * 39_999 + "x y"
    ]


def test_files_of_records_by_their_ending(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"say": "one", "id": 7}\n\n{"say": "two"}\n')
    (tmp_path / "a.csv").write_text('say,id\n"one, and\nmore",7\n')
    (tmp_path / "a.tsv").write_text('say\tid\n"one\t7\n')
    (tmp_path / "a.data").write_text('{"say": "one"}\n')
    found = list(InputRecords(None, [str(tmp_path / "a.jsonl")]))
    assert found[0] == {"say": "one", "id": 7, "where": f"{tmp_path}/a.jsonl:1"}
    assert found[1]["where"].endswith(":3")
    assert texts(InputRecords(None, [str(tmp_path / "a.csv")]), "say") == ["one, and\nmore"]
    assert texts(InputRecords(None, [str(tmp_path / "a.tsv")]), "say") == ['"one']
    assert texts(InputRecords(None, [str(tmp_path / "a.data")], form="jsonl"), "say") == ["one"]


BAD = {
    "a.jsonl": (b'{"text": "one"}\n{"text": \n{"text": "three"}\n', ":2: this is not JSON"),
    "a.csv": (b"text,id\none,1\ntwo\nthree,3\n", ":3: this row has 1 columns, not 2"),
    "a.txt": (b"one\nna\xefve\nthree\n", ":2: the byte 0xef is no utf-8 text"),
    "b.jsonl": (
        b'{"text": "one"}\n{"body": ""}\n{"text": "three"}\n',
        ":2: there is no field 'text', only body",
    ),
    "c.jsonl": (
        b'{"text": "one"}\n{"text": 5}\n{"text": "three"}\n',
        ":2: the field 'text' is not a text but '5'",
    ),
    "b.txt": (b"one\n \nthree\n", ":2: the text is empty"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_named_and_survived(tmp_path, capsys, name):
    content, said = BAD[name]
    (tmp_path / name).write_bytes(content)
    words = None, [str(tmp_path / name)]

    def work(questions):
        return (question.upper() for question in list(questions))

    def question(record):
        return field_of(record, "text")

    inputs = InputRecords(*words)
    assert [found for _, found in inputs.answers(question, work)] == ["ONE"] and inputs.stopped
    with pytest.raises(GlassformerError) as error:
        inputs.end()
    assert f"{name}{said}" in str(error.value)
    assert str(error.value).endswith("; correct it, or continue with --on-error skip.")
    inputs = InputRecords(*words, on_error="skip")
    assert [found for _, found in inputs.answers(question, work)] == ["ONE", "THREE"]
    inputs.end()
    lines = capsys.readouterr().err.splitlines()
    assert f"{name}{said}" in lines[0] and lines[0].endswith("; skipped.")
    assert lines[1] == "2 used, 1 skipped."


def test_an_error_among_the_results_is_about_its_record(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")

    def work(questions):
        for text in questions:
            yield GlassformerError("it is even.") if text == "two" else len(text)

    inputs = InputRecords(None, [str(tmp_path / "a.txt")], on_error="skip")
    found = list(inputs.answers(lambda record: record["text"], work))
    assert [(record["text"], n) for record, n in found] == [("one", 3), ("three", 5)]
    assert "a.txt:2: it is even; skipped." in capsys.readouterr().err


def test_ctrl_c_keeps_what_is_done(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("one\n\nthree\nfour\n")

    def work(questions):
        for text in questions:
            if text == "four":
                raise KeyboardInterrupt
            yield text

    inputs = InputRecords(None, [str(tmp_path / "a.txt")], on_error="skip")
    found = [text for _, text in inputs.answers(lambda r: field_of(r, "text"), work)]
    assert found == ["one", "three"]
    with pytest.raises(typer.Exit) as ended:
        inputs.end()
    assert ended.value.exit_code == 130
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:] == ["2 used, 1 skipped.", "Interrupted; 2 are done."]


def test_another_encoding_and_nothing_at_all(tmp_path):
    (tmp_path / "a.txt").write_bytes("naïve\n".encode("latin-1"))
    assert texts(InputRecords(None, [str(tmp_path / "a.txt")], encoding="latin-1")) == ["naïve"]
    with pytest.raises(GlassformerError, match="no encoding 'latin-99'"):
        InputRecords("x", encoding="latin-99")
    with pytest.raises(GlassformerError, match="no format 'yaml'; there are text, jsonl"):
        InputRecords("x", form="yaml")
    (tmp_path / "none.txt").write_text("")
    empty = InputRecords(None, [str(tmp_path / "none.txt")])
    assert list(empty.answers(lambda r: r, lambda questions: questions)) == []
    with pytest.raises(GlassformerError, match="The input is empty"):
        empty.end()
    with pytest.raises(GlassformerError, match="does not exist"):
        InputRecords(None, ["nowhere.txt"])


def test_a_stream_that_grows_is_read_as_it_comes(monkeypatch):
    reading, writing = os.pipe()
    monkeypatch.setattr(sys, "stdin", os.fdopen(reading, "r"))
    given = iter((b"one\n", b"two\n", b""))

    def write():
        content = next(given)
        os.write(writing, content) if content else os.close(writing)

    def work(questions):
        write()
        for question in questions:
            assert not questions.ready()  # nothing is there, and the task may compute
            yield question["text"].upper()
            write()

    assert [text for _, text in InputRecords().answers(lambda r: r, work)] == ["ONE", "TWO"]


def test_what_the_reader_raises_is_raised_to_the_caller(pipe):
    pipe(b"a,a\n1,2\n")
    with pytest.raises(GlassformerError, match="names a column twice"):
        list(InputRecords(form="csv"))


GB = "时光飞逝如箭"


def test_a_file_that_is_not_utf8_names_the_encoding(glassformer, tmp_path, monkeypatch):
    path = tmp_path / "gb.txt"
    path.write_bytes(f"{GB}\n".encode("gb18030") * 3)
    said = "gb.txt cannot be read: it is not UTF-8, but may be gb18030 (--encoding gb18030)."
    for verb in ("score", "generate"):
        code, _, error = glassformer(verb, "zoo:stories", "--file", str(path))
        assert code == 1 and error.rstrip().endswith(said), error
    named = ("--file", str(path), "--encoding", "gb18030", "--json")
    code, shown, _ = glassformer("score", "zoo:stories", *named)
    assert code == 0 and json.loads(shown)["perplexity"] > 1
    code, _, error = glassformer("evaluate", "zoo:stories", str(path))
    assert code == 1 and "on the command line --encoding gb18030" in error
    stdin = io.TextIOWrapper(io.BytesIO(GB.encode("gb18030")), "utf-8")
    monkeypatch.setattr(sys, "stdin", stdin)
    code, _, error = glassformer("classify", "zoo:reader", "-", "--head", "topic")
    assert code == 1 and "may be gb18030 (--encoding gb18030)" in error
