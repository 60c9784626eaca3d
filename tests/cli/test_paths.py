"""A positional text that names a file is read as that file; a wrong path is refused."""

from __future__ import annotations

import io
import json
import sys

import pytest
from small_models import bert, word_tokenizer

from glassformer.cli.input_records import InputRecords
from glassformer.cli.path_arguments import FORMS, file_named
from glassformer.cli.text_column import TextColumn
from glassformer.data.readers import READERS
from glassformer.errors import GlassformerError

TEXTS = ["Slow and ___ dull.", "A warm and ___ story."]
VERBS = {
    "classify zoo:reader --head sentiment": "texts.txt",
    "tag zoo:reader --words": "texts.txt",
    "fill zoo:encoder": "texts.txt",
    "embed zoo:encoder": "texts.txt",
    "translate zoo:translator --target-language fr --num-beams 1": "texts.txt",
    "summarize zoo:translator --num-beams 1 --max-new-tokens 4": "texts.txt",
    "score zoo:letters": "texts.txt",
    "generate zoo:letters --max-new-tokens 2": "texts.txt",
    "lens zoo:letters --max-steps 1 --tokens-per-batch 16 --max-length 8 --out lens": "texts.txt",
    "search notes.index": "texts.txt",
    "answer reader": "texts.jsonl",
    "answer reader Who?": "texts.txt",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("folder")
    (made / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    asked = [{"question": "Who?", "context": text} for text in TEXTS]
    (made / "texts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    (made / "reviews").mkdir()
    tokenizer = word_tokenizer(made / "tokenizer", " ".join([*TEXTS, "Who?"]))
    bert(tokenizer, "QuestionAnswering").save(made / "reader")
    return made


@pytest.mark.parametrize("words", VERBS)
def test_a_path_is_read_as_file_reads_it(glassformer, folder, monkeypatch, words):
    monkeypatch.chdir(folder)
    if words.startswith("search"):
        index = ("index", "notes.index", "--model", "zoo:encoder", "--texts", ".")
        assert glassformer(*index)[0] == 0
    verb, model, *rest = words.split()
    given = rest[:1] if rest and not rest[0].startswith("--") else []
    options = rest[len(given) :]
    asked = glassformer(verb, model, *given, "--file", VERBS[words], *options)
    code, shown, said = glassformer(verb, model, *given, VERBS[words], *options)
    assert (code, shown) == asked[:2] and code == 0 and shown
    form = "JSON lines" if VERBS[words].endswith("jsonl") else "a text file"
    assert said.startswith(f"Reading {VERBS[words]} as {form} (to use its name as a text,")
    for wrong, why in (
        ("textss.txt", "There is no file textss.txt; correct the path"),
        ("reviews", "reviews is a folder; name a file in it"),
    ):
        code, shown, said = glassformer(verb, model, *given, wrong, *options)
        assert (code, shown) == (1, "") and said.startswith(f"error: {why}")


def test_every_form_has_a_name():
    assert set(FORMS) == set(READERS)


@pytest.mark.parametrize(
    ("word", "path"),
    [
        ("revews.csv", True),
        ("data/Reviews.JSONL", True),
        ("reviews.tsv.gz", True),
        ("see file.txt", False),
        ("Good.", False),
        ("and/or", False),
        ("Node.js", False),
        ("e.g.", False),
        ("一部好电影。", False),
        ("", False),
        ("a\0b", False),
        ("A long text. " * 1000, False),
    ],
)
def test_one_word_with_the_ending_of_a_data_file_is_a_path(word, path):
    if path:
        with pytest.raises(GlassformerError, match="There is no file"):
            file_named(word)
    else:
        assert file_named(word) is None


def test_a_files_name_is_a_text_on_standard_input(glassformer, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"texts.txt\n")))
    _, shown, said = glassformer("classify", "zoo:reader", "--head", "sentiment", "--json")
    assert json.loads(shown)["text"] == "texts.txt" and said == ""


def test_something_that_is_no_file_is_not_read(tmp_path):
    with pytest.raises(GlassformerError, match="/dev/null is not a regular file; read it with - <"):
        file_named("/dev/null")


# --- the column of a table -----------------------------------------------------------------------


def texts(path, column) -> list[str]:
    return [record["text"] for record in InputRecords(str(path), column=column)]


@pytest.mark.parametrize(
    ("table", "taken", "found"),
    [
        ("text,review\nA b.,c", (), "A b."),
        ("review\nA b.", (), "A b."),
        ("id,review,stars,date\n7,A b.,5,2026-01-01T10:00:00+00:00", (), "A b."),
        ("review,label\nA b.,good", (), "A b."),
        ("premise,hypothesis\nA b.,c", ("hypothesis", None), "A b."),
        ("编号,评论\n1,好看的电影", (), "好看的电影"),
    ],
)
def test_the_text_is_the_only_column_that_can_have_it(tmp_path, capsys, table, taken, found):
    (tmp_path / "a.csv").write_text(f"{table}\n", "utf-8")
    assert texts(tmp_path / "a.csv", TextColumn(None, taken=taken)) == [found]
    told = "The text is the column" in capsys.readouterr().err
    assert told == (not table.startswith("text"))


def test_a_column_without_a_header_is_the_text(tmp_path):
    (tmp_path / "a.csv").write_text("A film without a header.\nAnother film.\n")
    found = ["A film without a header.", "Another film."]
    assert texts(tmp_path / "a.csv", TextColumn(None)) == found


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("title,body\nA b.,c d.", "title, body"),
        ("id,stars\n7,5", "id, stars"),
    ],
)
def test_else_the_error_names_the_columns(tmp_path, table, columns):
    (tmp_path / "a.csv").write_text(f"{table}\n")
    with pytest.raises(GlassformerError) as error:
        texts(tmp_path / "a.csv", TextColumn(None))
    assert f"has no column text, only {columns}; name the one that has the text by --field." in str(
        error.value
    )


def test_a_column_that_is_named_is_read_and_so_is_a_text(glassformer, tmp_path):
    (tmp_path / "a.csv").write_text("title,body\nA warm story.,Slow and dull.\n")
    words = ("classify", "zoo:reader", str(tmp_path / "a.csv"), "--head", "sentiment", "--json")
    code, _, said = glassformer(*words)
    assert code == 1 and "only title, body" in said
    code, shown, _ = glassformer(*words, "--field", "body")
    assert json.loads(shown)["text"] == "Slow and dull."
    words = ("classify", "zoo:reader", "A warm story.", "--head", "sentiment", "--json")
    code, shown, said = glassformer(*words, "--field", "body")
    assert (code, said) == (0, "") and json.loads(shown)["text"] == "A warm story."
