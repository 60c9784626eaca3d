"""From a file to a model in use, by two commands at a pseudo-terminal, for the files that people
have: CSV, CoNLL, SQuAD, TSV pairs, JSON lines, a folder of texts, and sentence pairs."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator

import pytest
from fork_server import Ended, ForkServer

import glassformer as gf

PEOPLE, CITIES = ("Ada", "Ben", "Cleo", "Dan"), ("Rome", "Paris", "Oslo", "Lima")
WORDS = {"bonjour": "hello", "bon": "good", "chat": "cat", "chien": "dog", "maison": "house"}
THEMES = {"card": ("my card is lost", "where is my card"), "loan": ("i need a loan", "loan rate?")}


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    started = ForkServer(COLUMNS="100")
    yield started
    started.close()


@pytest.fixture
def terminal(server, tmp_path):
    """Runs a command in a folder of the test, with standard error at a pseudo-terminal."""
    count = iter(range(100))

    def run(*words: str, code: int = 0) -> Ended:
        ended = server.run(*words, cwd=tmp_path, stdout=str(tmp_path / f"stdout-{next(count)}"))
        assert ended.code == code, ended.stderr
        assert "Traceback" not in ended.stderr
        return ended

    return run


def drawn(rows: int = 40) -> Iterator[tuple[str, str]]:
    draw = random.Random(0)
    return ((draw.choice(PEOPLE), draw.choice(CITIES)) for _ in range(rows))


def intents(rows: int = 40) -> list[tuple[str, str]]:
    draw = random.Random(0)
    return [
        (f"{draw.choice(texts)} {number}", theme)
        for number in range(rows // 2)
        for theme, texts in THEMES.items()
    ]


def test_a_classifier_of_a_csv_file(terminal, tmp_path):
    rows = intents()
    with (tmp_path / "my.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "query", "category"), *(
            (number, *row) for number, row in enumerate(rows)
        )])  # fmt: skip
    with (tmp_path / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("day", "query"), (1, "my card, is lost"), (2, "a loan")])
    trained = terminal("train", "classify", "my.csv", "--max-steps", "12", "--out", "runs/bank")
    assert "gets a new head for 2 labels" in trained.stderr
    assert "It replaces a head for the vocabulary." in trained.stderr
    assert 'label = "category"' in trained.stderr and "validation = 0.1" in trained.stderr
    assert "left" in trained.stderr and "loss" in trained.stderr  # the progress bar
    assert b"accuracy" in trained.stdout and b"4 records, 95% intervals" in trained.stdout
    terminal("classify", "runs/bank", "new.csv", "--out", "predictions.csv")
    with (tmp_path / "predictions.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [list(row) for row in found] == [["day", "query", "label", "probability"]] * 2
    assert [(row["day"], row["query"]) for row in found] == [
        ("1", "my card, is lost"),
        ("2", "a loan"),
    ]
    model = gf.load(tmp_path / "runs/bank")
    for row, answer in zip(found, model.classify([row["query"] for row in found]), strict=True):
        assert row["label"] == answer.label in THEMES
        assert float(row["probability"]) == pytest.approx(answer.probability, abs=1e-5)


@pytest.mark.slow
def test_a_tagger_of_a_conll_file(terminal, tmp_path):
    lines = [f"{person} B-PER\nlives O\nin O\n{city} B-LOC\n. O\n\n" for person, city in drawn()]
    (tmp_path / "names.conll").write_text("".join(lines))
    trained = terminal("train", "tag", "names.conll", "--max-steps", "12")
    assert "gets a new head for 3 labels" in trained.stderr and b"recall" in trained.stdout
    found = terminal("tag", "runs/tag", "Ben lives in Oslo .", "--json")
    (result,) = map(json.loads, found.stdout.splitlines())
    assert {(one["text"], one["type"]) for one in result["entities"]} == {
        ("Ben", "PER"),
        ("Oslo", "LOC"),
    }


@pytest.mark.slow
def test_an_answerer_of_a_squad_file(terminal, tmp_path):
    texts = [(p, c, f"{p} was born in {c} and works there.") for p, c in drawn()]
    paragraphs = [
        {
            "context": text,
            "qas": [{"id": str(number), "question": f"Where was {person} born?",
                     "answers": [{"text": city, "answer_start": text.index(city)}]}],
        }
        for number, (person, city, text) in enumerate(texts)
    ]  # fmt: skip
    squad = {"version": "1.1", "data": [{"title": "people", "paragraphs": paragraphs}]}
    (tmp_path / "questions.json").write_text(json.dumps(squad))
    trained = terminal("train", "answer", "questions.json", "--max-steps", "20")
    assert b"exact" in trained.stdout and 'format = "squad"' in trained.stderr
    context = "Dan was born in Lima and works there."
    found = terminal("answer", "runs/answer", "Where was Dan born?", context, "--json")
    assert json.loads(found.stdout)["text"] == "Lima"


def test_a_translator_of_tsv_pairs(terminal, tmp_path):
    draw, words = random.Random(0), list(WORDS)
    pairs = [[draw.choice(words) for _ in range(3)] for _ in range(40)]
    (tmp_path / "pairs.tsv").write_text(
        "".join(f"{' '.join(p)}\t{' '.join(WORDS[w] for w in p)}\n" for p in pairs)
    )
    said = terminal("train", "translate", "pairs.tsv", code=1).stderr
    assert "choose one: --to" in said and not (tmp_path / "runs").exists()
    trained = terminal(
        *("train", "translate", "pairs.tsv", "--from", "fr", "--to", "en", "--max-steps", "6")
    )
    assert "keeps its head" in trained.stderr and "perplexity" in trained.stderr
    assert b"bleu" in trained.stdout
    found = terminal(
        *("translate", "runs/translate", "bon chat", "--from", "fr", "--to", "en", "--json")
    )
    model = gf.load(tmp_path / "runs/translate")
    said = model.translate("bon chat", source_language="fr", to="en").text
    assert said and json.loads(found.stdout)["translation"] == said


@pytest.mark.slow
def test_a_summarizer_of_json_lines(terminal, tmp_path):
    rows = [
        {"article": f"{person} went to {city} by train.", "summary": f"{person} in {city}"}
        for person, city in drawn()
    ]
    (tmp_path / "articles.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    trained = terminal("train", "summarize", "articles.jsonl", "--max-steps", "4")
    assert 'source = "article"' in trained.stderr and 'target = "summary"' in trained.stderr
    assert b"rouge" in trained.stdout
    found = terminal("summarize", "runs/summarize", "Ada went to Rome by train.", "--json")
    assert json.loads(found.stdout)["summary"]


@pytest.mark.slow
def test_a_writer_of_a_folder_of_texts(terminal, tmp_path):
    (tmp_path / "texts").mkdir()
    for number in range(3):
        lines = "".join(f"{person} went to {city}.\n" for person, city in drawn())
        (tmp_path / f"texts/{number}.txt").write_text(lines)
    trained = terminal(
        *("train", "generate", "texts", "--base", "zoo:shakespeare", "--max-steps", "4"),
        "--batch-size=4",
    )
    assert "best" in trained.stderr and (tmp_path / "runs/generate/best").is_dir()
    found = terminal("generate", "runs/generate", "Ada went", "--max-new-tokens", "8")
    assert found.stdout.strip()


def test_vectors_of_sentence_pairs(terminal, tmp_path):
    with (tmp_path / "similar.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("sentence1", "sentence2"), *(
            (f"{p} lives in {c}, {i}", f"In {c} is the home of {p} {i}")
            for i, (p, c) in enumerate(drawn())
        )])  # fmt: skip
    trained = terminal("train", "embed", "similar.csv", "--max-steps", "4")
    assert 'positive = "sentence2"' in trained.stderr and "mrr" in trained.stderr
    found = terminal("embed", "runs/embed", "Ada lives in Rome.", "--json")
    vector = json.loads(found.stdout)["vector"]
    assert len(vector) == gf.load("zoo:encoder").config["hidden_size"]
