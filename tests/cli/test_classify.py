"""glassformer classify and watch: a text, files, pipes; tables, JSON, alerts, pages; bad input."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from small_models import UNSEEN, reviews, train_classifier
from test_monitor import dated

import glassformer as gf

TEXT = "A wonderful and funny story."


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(train_classifier(tmp_path_factory.mktemp("reviews"), reviews()))


def lines(rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_one_text_for_people_and_for_programs(glassformer, model):
    code, shown, _ = glassformer("classify", model, TEXT)
    wanted = gf.load(model).classify(TEXT)
    header, row = shown.splitlines()
    assert code == 0 and header.split() == ["label", "prob", "text"]
    assert row.split(maxsplit=2) == ["good", f"{wanted.probability:.4f}", TEXT]
    found = json.loads(glassformer("classify", model, TEXT, "--json")[1])
    assert found == {"where": "TEXT", "text": TEXT, **wanted.record()}


def test_a_pipe_of_lines(glassformer, model, monkeypatch):
    pipe = io.TextIOWrapper(io.BytesIO("\n".join(UNSEEN).encode()), "utf-8")
    monkeypatch.setattr(sys, "stdin", pipe)
    code, shown, _ = glassformer("classify", model, "--json")
    assert code == 0
    assert [json.loads(line)["label"] for line in shown.splitlines()] == list(UNSEEN.values())


def test_files_pairs_and_columns_that_go_along(glassformer, model, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        lines({"id": i, "say": t, "more": "It is.", "date": "x"} for i, t in enumerate(UNSEEN))
    )
    words = ("classify", model, "--file", str(path), "--field", "say", "--json")
    found = [json.loads(line) for line in glassformer(*words, "--keep", "date")[1].splitlines()]
    assert [one["label"] for one in found] == list(UNSEEN.values())
    assert [(one["id"], one["where"], one["date"]) for one in found][2] == (2, f"{path}:3", "x")
    paired = [json.loads(line) for line in glassformer(*words, "--pair", "more")[1].splitlines()]
    wanted = gf.load(model).classify([(text, "It is.") for text in UNSEEN])
    for one, right in zip(paired, wanted, strict=True):
        assert one["probabilities"] == pytest.approx(right.probabilities, abs=1e-5)
    alone = json.loads(glassformer("classify", model, TEXT, "--pair", "It is.", "--json")[1])
    assert alone["pair"] == "It is."
    assert alone["probabilities"] == pytest.approx(wanted[0].probabilities, abs=1e-5)


def test_thresholds_and_texts_that_are_too_long(glassformer, model):
    found = json.loads(glassformer("classify", model, TEXT, "--threshold", "1", "--json")[1])
    assert found["label"] is None and found["labels"] == []
    row = glassformer("classify", model, TEXT, "--threshold", "good=1")[1].splitlines()[1]
    assert row.split()[0] == "-"
    code, shown, said = glassformer("classify", model, TEXT * 20, "--json")
    assert code == 0 and json.loads(shown)["cut"] > 0
    assert "1 texts were too long for the model and truncated" in said
    code, shown, said = glassformer("classify", model, TEXT * 20, "--too-long", "refuse")
    assert (code, shown) == (1, "") and "tokens, and the model can read 32" in said


def test_bad_lines_are_skipped_and_counted(glassformer, model, tmp_path):
    path = tmp_path / "a.jsonl"
    bad = '{"text": "Slow, ugly and dull!"}\n{"text": ""}\nno\n'
    path.write_text(bad + json.dumps({"text": TEXT}))
    code, shown, said = glassformer("classify", model, "--file", str(path), "--json")
    assert code == 1 and "a.jsonl:2: the text is empty" in said
    assert json.loads(shown)["label"] == "bad"  # what came before is not lost
    words = ("--file", str(path), "--json", "--on-error", "skip")
    code, shown, said = glassformer("classify", model, *words)
    assert code == 0
    assert [json.loads(line)["label"] for line in shown.splitlines()] == ["bad", "good"]
    assert "a.jsonl:2: the text is empty; skipped." in said and "2 used, 2 skipped." in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("",), "TEXT: the text is empty"),
        ((TEXT, "--file", "x"), "Give one of TEXT and --file"),
        (("--file", "nowhere.txt"), "nowhere.txt does not exist"),
        ((TEXT, "--threshold", "much"), "--threshold is 0.7 or label=0.7, not 'much'"),
        ((TEXT, "--threshold", "fine=0.7"), "does not have; its labels are bad, good"),
        ((TEXT, "--head", "tag"), "no head 'tag' to classify with, only classify"),
    ],
)
def test_bad_words_get_one_sentence(glassformer, model, words, said):
    code, shown, error = glassformer("classify", model, *words)
    assert (code, shown) == (1, "")
    assert error.startswith("error: ") and said in error and error.count("\n") == 1


def test_a_model_of_another_kind_names_its_verb(glassformer):
    code, _, said = glassformer("classify", "shakespeare", TEXT)
    assert code == 1 and "classify needs a head for whole texts" in said
    assert "it is a model to generate with" in said


def test_watch_finds_the_jump_and_writes_both_pictures(glassformer, model, tmp_path):
    path = tmp_path / "a.csv"
    rows = dated(20, jump=15)
    path.write_text("date,text\n" + "".join(f'{r["date"]},"{r["text"]}"\n' for r in rows[::-1]))
    files = tmp_path / "a.svg", tmp_path / "a.html"
    words = ("watch", model, "--file", str(path), "--svg", str(files[0]), "--html", str(files[1]))
    code, shown, said = glassformer(*words)
    assert code == 0 and "Fisher's exact test" in said and "below 0.001" in said
    days = shown.splitlines()
    assert len(days) == 21 and days[0].split()[:4] == ["day", "texts", "bad", "good"]
    assert [i for i, day in enumerate(days) if "rose from" in day] == [16]
    assert all("2026-03-16" in file.read_text() for file in files)
    alerts = [json.loads(line) for line in glassformer(*words[:4], "--json")[1].splitlines()]
    assert {(one["label"], one["direction"]) for one in alerts} == {("bad", "up"), ("good", "down")}
    assert all("Holm" in one["rule"] and one["texts"] == 40 for one in alerts)


def test_watch_reads_what_classify_has_said(glassformer, model, tmp_path):
    path, labeled = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    path.write_text(lines({k: row[k] for k in ("date", "text")} for row in dated(20, jump=15)))
    labeled.write_text(
        glassformer("classify", model, "--file", str(path), "--keep", "date", "--json")[1]
    )
    both = [
        glassformer("watch", *words, "--json")[1]
        for words in ((model, "--file", str(path)), ("--label", "label", "--file", str(labeled)))
    ]
    assert sorted(both[0].splitlines()) == sorted(both[1].splitlines()) and len(both[0]) > 100


def test_watch_follows_a_stream(model):
    """The alert is there while the stream is still open."""
    root = Path(gf.__file__).parent.parent
    run = subprocess.Popen(
        [sys.executable, "-m", "glassformer", "watch", model, "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=root,
    )
    try:
        run.stdin.write(lines(dated(17, jump=15)[: 16 * 40 + 1]).encode())  # one of the next day
        run.stdin.flush()
        first = json.loads(run.stdout.readline())
        assert first["bucket"] == "2026-03-16"
        run.stdin.close()
        assert run.wait(timeout=300) == 0
    finally:
        run.kill()


@pytest.mark.parametrize(
    ("row", "words", "said"),
    [
        ({"date": "soon", "text": "x"}, (), "a.jsonl:1: 'soon' is not a date"),
        ({"text": "x"}, (), "a.jsonl:1: there is no field 'date'"),
        ({"date": "2026-01-01"}, (), "a.jsonl:1: there is no field 'text'"),
        ({"date": "2026-01-01", "text": "x"}, ("--alpha", "2"), "alpha is between 0 and 1"),
        ({"date": "2026-01-01", "text": "x"}, ("--label", "label"), "Give a model to classify"),
        ({"date": "2026-01-01", "text": "x"}, ("--svg", "/nowhere/a.svg"), "no folder /nowhere"),
    ],
)
def test_what_cannot_be_watched(glassformer, model, tmp_path, row, words, said):
    path = tmp_path / "a.jsonl"
    path.write_text(lines([row]))
    code, shown, error = glassformer("watch", model, "--file", str(path), *words)
    assert (code, shown) == (1, "") and said in error


def test_watch_skips_bad_rows(glassformer, tmp_path):
    path = tmp_path / "a.csv"
    good = "".join(f"{row['date']},{row['label']}\n" for row in dated(20, jump=15))
    path.write_text(f"date,label\nsoon,bad\n2026-03-01\n{good}")
    words = ("--label", "label", "--file", str(path), "--on-error", "skip", "--json")
    code, shown, said = glassformer("watch", *words)
    assert code == 0 and len(shown.splitlines()) == 2
    assert "a.csv:2: 'soon' is not a date" in said and "800 used, 2 skipped." in said


def test_the_help_states_the_rule(glassformer):
    said = " ".join(glassformer("watch", "--help")[1].split())
    for word in ("Fisher's exact test", "two-proportion t-test", "Holm's correction", "--alpha"):
        assert word in said
