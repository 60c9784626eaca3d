"""Models that learn a task within seconds, for tests that use them: names in sentences, answers to
simple questions."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import glassformer as gf

NAMES = [
    "Ada Lovelace", "Alan Turing", "Grace Hopper", "Zoe\u0301", "Kurt Go\u0308del", "Emmy Noether",
    "李明", "王芳",
]  # fmt: skip
PLACES = ["London", "New York", "Paris", "北京", "上海", "São Paulo", "Vienna"]
YEARS = ["1815", "1906", "1912"]
OPENINGS = ["", " So it was told. ", " 你好，世界！ ", " Cafe\u0301 stories 👩\u200d👧: "]
TEMPLATES = [
    "{name} was born in {place}.",
    "In {place}, {name} met nobody 🎉!",
    "They say that {name} likes {place}",
    "{name}出生在{place}。",
    "Nothing happened today 👍🏽.",
    "The train to {place} is late (again)",
]


def sentence(rng: random.Random) -> tuple[str, list[tuple[str, int, int]]]:
    """A text and where in it which kind of name stands."""
    text, spans = "", []
    for number, part in enumerate(rng.choice(TEMPLATES).replace("}", "{").split("{")):
        if number % 2:
            kind = "PER" if part == "name" else "LOC"
            part = rng.choice(NAMES if part == "name" else PLACES)
            spans.append((kind, len(text), len(text) + len(part)))
        text += part
    return text, spans


def document(rng: random.Random, sentences: int) -> tuple[str, list[tuple[str, int, int]]]:
    """The same of several sentences."""
    parts: list[str] = []
    spans, length = [], 0
    for _ in range(sentences):
        text, own = sentence(rng)
        spans += [(kind, length + start, length + end) for kind, start, end in own]
        parts.append(text)
        length += len(text) + 1
    return " ".join(parts), spans


def tagged(
    text: str, spans: list[tuple[str, int, int]], scheme: str
) -> tuple[list[str], list[str]]:
    """The same as words and tags."""
    from glassformer.tasks.words import find_words

    words, tags = [], []
    for start, end in find_words(text):
        words.append(text[start:end])
        inside = [(k, a, b) for k, a, b in spans if a <= start and end <= b]
        if not inside:
            tags.append("O")
            continue
        kind, first, last = inside[0]
        mark = "B" if start == first else "I"
        if scheme == "IOBES" and end == last:
            mark = "S" if start == first else "E"
        if scheme == "IOB1":
            mark = "I"
        tags.append(f"{mark}-{kind}")
    return words, tags


def write_conll(path: Path, count: int, scheme: str, seed: int) -> None:
    rng = random.Random(seed)
    lines: list[str] = []
    for _ in range(count):
        words, tags = tagged(*document(rng, rng.randint(1, 3)), scheme)
        lines += [f"{word}\t{tag}" for word, tag in zip(words, tags, strict=True)] + [""]
    path.write_text("\n".join(lines), "utf-8")


def train_tagger(folder: Path, scheme: str) -> Path:
    """The folder of a model that finds persons and places."""
    for name, count, seed in (("train", 240, 1), ("test", 40, 2)):
        write_conll(folder / f"{name}.conll", count, scheme, seed)
    return learn(
        folder,
        "BertForTokenClassification",
        {"format": "conll", "train": str(folder / "train.conll")},
        {"name": "tagging", "max_length": 32},
        steps=70,
    )


def question(rng: random.Random) -> dict[str, Any]:
    """As SQuAD has it: who, where or when; of some nobody knows when."""
    name, place, year = rng.choice(NAMES), rng.choice(PLACES), rng.choice(YEARS)
    told = rng.choice(["{who} was born in {where}", "It was in {where} that {who} was born 🎉"])
    told = told.format(who=name, where=place) + rng.choice([".", f" in {year}.", f" ({year})"])
    before, behind = ("".join(rng.choices(OPENINGS, k=rng.randint(0, 3))) for _ in range(2))
    context = before + told + behind
    asked, answer = rng.choice(
        [("Who was born?", name), ("Where was that?", place), ("When was that?", year)]
    )
    start = context.find(answer)
    return {
        "id": f"q{rng.randrange(10**9)}",
        "question": asked,
        "context": context,
        "answers": [{"text": answer, "answer_start": start}] if start >= 0 else [],
        "is_impossible": start < 0,
    }


def write_squad(path: Path, count: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    records = [question(rng) for _ in range(count)]
    paragraphs = [{"context": one["context"], "qas": [one]} for one in records]
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), "utf-8")
    return records


def train_answerer(folder: Path) -> Path:
    write_squad(folder / "train.json", 500, seed=1)
    return learn(
        folder,
        "BertForQuestionAnswering",
        {"format": "squad", "train": str(folder / "train.json")},
        {"name": "span", "max_length": 64, "allow_no_answer": True},
        steps=300,
    )


def learn(
    folder: Path, architecture: str, data: dict[str, Any], objective: dict[str, Any], steps: int
) -> Path:
    recipe = {
        "model": {
            "preset": "bert-base", "architecture": architecture, "num_layers": 2, "num_heads": 4,
            "hidden_size": 48, "intermediate_size": 96, "context_length": 64,
            "config": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
        },
        "tokenizer": {"type": "wordpiece", "vocab_size": 400, "lowercase": True},
        "data": {**data, "num_workers": 1},
        "objective": objective,
        "train": {"max_steps": steps, "batch_size": 32, "learning_rate": 3e-3, "warmup_steps": 10},
        "run": {"out": str(folder / "run")},
    }  # fmt: skip
    return Path(gf.train(recipe).model)
