"""From a file to a model in use, by two commands at a pseudo-terminal, for the files that people
have: CSV, CoNLL, SQuAD, TSV pairs, JSON lines, a folder of texts, and sentence pairs.

The commands are those of docs/your-data.md.
"""

from __future__ import annotations

import csv
import json
import random
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from fork_server import Ended, ForkServer

import glassformer as gf

PEOPLE, CITIES = ("Ada", "Ben", "Cleo", "Dan"), ("Rome", "Paris", "Oslo", "Lima")
WORDS = {"bonjour": "hello", "bon": "good", "chat": "cat", "chien": "dog", "maison": "house"}
PAGE = Path(__file__).parents[2] / "docs/your-data.md"
JOURNEYS = {  # the two commands of each row of the page, by the verb
    first.split()[2]: (shlex.split(first)[1:], shlex.split(second)[1:])
    for first, second in re.findall(
        r"^\| .*? \| `(glassformer train .*?)`, `(glassformer .*?)` \|$", PAGE.read_text(), re.M
    )
}
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


def test_the_page_has_seven_journeys():
    verbs = ("classify", "tag", "answer", "translate", "summarize", "generate", "embed")
    assert tuple(JOURNEYS) == verbs


def test_a_classifier_of_a_csv_file(terminal, tmp_path):
    rows = intents()
    with (tmp_path / "my.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "query", "category"), *(
            (number, *row) for number, row in enumerate(rows)
        )])  # fmt: skip
    with (tmp_path / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("day", "query"), (1, "my card, is lost"), (2, "a loan")])
    train, use = JOURNEYS["classify"]
    trained = terminal(*train, "--max-steps", "12")
    assert "gets a new head for 2 labels" in trained.stderr
    assert "It replaces a head for the vocabulary." in trained.stderr
    assert 'label = "category"' in trained.stderr and "validation = 0.1" in trained.stderr
    assert "left" in trained.stderr and "loss" in trained.stderr  # the progress bar
    assert b"accuracy" in trained.stdout and b"4 records, 95% intervals" in trained.stdout
    assert any(theme.encode() in terminal(*use).stdout for theme in THEMES)
    terminal("classify", "runs/classify", "new.csv", "--out", "predictions.csv")
    with (tmp_path / "predictions.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [list(row) for row in found] == [["day", "query", "label", "probability"]] * 2
    assert [(row["day"], row["query"]) for row in found] == [
        ("1", "my card, is lost"),
        ("2", "a loan"),
    ]
    model = gf.load(tmp_path / "runs/classify")
    for row, answer in zip(found, model.classify([row["query"] for row in found]), strict=True):
        assert row["label"] == answer.label in THEMES
        assert float(row["probability"]) == pytest.approx(answer.probability, abs=1e-5)


@pytest.mark.slow
def test_a_tagger_of_a_conll_file(terminal, tmp_path):
    lines = [f"{person} B-PER\nlives O\nin O\n{city} B-LOC\n. O\n\n" for person, city in drawn()]
    (tmp_path / "names.conll").write_text("".join(lines))
    train, use = JOURNEYS["tag"]
    trained = terminal(*train, "--max-steps", "12")
    assert "gets a new head for 3 labels" in trained.stderr and b"recall" in trained.stdout
    found = terminal(*use, "--json")
    (result,) = map(json.loads, found.stdout.splitlines())
    assert {(one["text"], one["type"]) for one in result["entities"]} == {
        ("Ada", "PER"),
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
    train, use = JOURNEYS["answer"]
    trained = terminal(*train, "--max-steps", "20")
    assert b"exact" in trained.stdout and 'format = "squad"' in trained.stderr
    assert json.loads(terminal(*use, "--json").stdout)["text"] in use[-1]
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
    train, use = JOURNEYS["translate"]
    trained = terminal(*train, "--max-steps", "6")
    assert "keeps its head" in trained.stderr and "perplexity" in trained.stderr
    assert b"bleu" in trained.stdout
    found = terminal(*use, "--json")
    model = gf.load(tmp_path / "runs/translate")
    said = model.translate("bonjour").text  # the run has learned one pair of languages
    assert said and json.loads(found.stdout)["translation"] == said


@pytest.mark.slow
def test_a_summarizer_of_json_lines(terminal, tmp_path):
    rows = [
        {"article": f"{person} went to {city} by train.", "summary": f"{person} in {city}"}
        for person, city in drawn()
    ]
    (tmp_path / "articles.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    train, use = JOURNEYS["summarize"]
    trained = terminal(*train, "--max-steps", "4")
    assert 'source = "article"' in trained.stderr and 'target = "summary"' in trained.stderr
    assert b"rouge" in trained.stdout
    (tmp_path / "article.txt").write_text("Ada went to Rome by train.\n")
    found = terminal(*use, "--json")
    assert json.loads(found.stdout)["summary"]


@pytest.mark.slow
def test_a_writer_of_a_folder_of_texts(terminal, tmp_path):
    (tmp_path / "texts").mkdir()
    for number in range(3):
        lines = "".join(f"{person} went to {city}.\n" for person, city in drawn())
        (tmp_path / f"texts/{number}.txt").write_text(lines)
    train, use = JOURNEYS["generate"]
    options = ("--base", "zoo:shakespeare", "--max-steps", "4", "--batch-size=4")
    trained = terminal(*train, *options)
    assert "best" in trained.stderr and (tmp_path / "runs/generate/best").is_dir()
    found = terminal(*use, "--max-new-tokens", "8")
    assert found.stdout.strip()


def test_vectors_of_sentence_pairs(terminal, tmp_path):
    with (tmp_path / "similar.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("sentence1", "sentence2"), *(
            (f"{p} lives in {c}, {i}", f"In {c} is the home of {p} {i}")
            for i, (p, c) in enumerate(drawn())
        )])  # fmt: skip
    train, use = JOURNEYS["embed"]
    trained = terminal(*train, "--max-steps", "4")
    assert 'positive = "sentence2"' in trained.stderr and "mrr" in trained.stderr
    assert b"embedding, 4 records, 95% intervals" in trained.stdout and b"mrr" in trained.stdout
    found = terminal(*use, "--json")
    vector = json.loads(found.stdout)["vector"]
    assert len(vector) == gf.load("zoo:encoder").config["hidden_size"]
