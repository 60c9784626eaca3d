"""The texts of `reader`, by task: what a request is about (CLINC150's ten domains), whether a
review is kind (Pang and Lee's sentences), who and what is named (WNUT 2017, the Broad Twitter
Corpus, WikiGold: persons, places and organizations, which all three have).

Besides there are texts without labels. A larger model, fine-tuned on the same data
(reader-teacher), says what it thinks of them, and `teach` makes records of that, which the reader
learns from, too."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import encoder
from sources import SourceFiles
from splits import same, write_lines, write_records, write_table

PARTS = {"topic": "classification", "sentiment": "classification-2", "entities": "tagging"}
SENTIMENTS = {"neg": "negative", "pos": "positive"}
TYPES = {"person": "PER", "PER": "PER", "location": "LOC", "LOC": "LOC", "corporation": "ORG",
         "group": "ORG", "ORG": "ORG"}  # fmt: skip
HELD_OUT = 1066  # reviews to test, and to validate: a tenth each
WORDS = range(4, 61)  # of a sentence that the teacher is asked about
SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
NAMED = 20_000  # sentences in which the teacher looks for names

Record = dict[str, Any]


def make(sources: SourceFiles, target: Path) -> None:
    split = {
        "topic": topics(sources),
        "sentiment": sentiments(sources),
        "entities": entities(sources),
    }
    for task, parts in split.items():
        for part in ("train", "valid"):
            records = ({"objective": PARTS[task], **one} for one in parts[part])
            write_records(target / f"{part}-{task}.jsonl", records)
    for task in ("topic", "sentiment"):
        rows = ((one["text"], one["label"]) for one in split[task]["test"])
        write_table(target / "eval" / f"{task}.tsv", ("text", "label"), rows)
    write_lines(target / "eval" / "entities.conll", map(conll, split["entities"]["test"]))
    held = [one["text"] for part in ("valid", "test") for one in split["sentiment"][part]]
    write_lines(target / "untaught-sentiment.txt", sentences(sources, held))
    write_lines(target / "untaught-entities.txt", prose(sources))


def topics(sources: SourceFiles) -> dict[str, list[Record]]:
    domains = json.loads(sources.text("clinc150/domains.json"))
    topic = {intent: name for name, intents in domains.items() for intent in intents}
    asked = json.loads(sources.text("clinc150/data_full.json"))
    parts = {"train": "train", "valid": "val", "test": "test"}
    made = {
        part: [{"text": text, "label": topic[intent]} for text, intent in asked[name]]
        for part, name in parts.items()
    }
    return apart(made)


def sentiments(sources: SourceFiles) -> dict[str, list[Record]]:
    """As many of each kind in every part; of like sentences the first."""
    made: dict[str, list[Record]] = {"test": [], "valid": [], "train": []}
    for end, label in SENTIMENTS.items():
        text = sources.text(f"sentence_polarity/rt-polarity.{end}")
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        rows = [
            {"text": line, "label": label} for line in random.Random(1).sample(lines, len(lines))
        ]
        half = HELD_OUT // 2
        made["test"] += rows[:half]
        made["valid"] += rows[half : 2 * half]
        made["train"] += rows[2 * half :]
    return apart(made)


def entities(sources: SourceFiles) -> dict[str, list[Record]]:
    tweets = [f"btc/{section}.conll" for section in "abefgh"]
    learned = ["wnut17/wnut17train.conll", *tweets, "wikigold.conll.txt"]
    files = {"train": learned, "valid": ["wnut17/emerging.dev.conll"],
             "test": ["wnut17/emerging.test.annotated"]}  # fmt: skip
    made = {
        part: [one for name in names for one in tagged(sources.text(name))]
        for part, names in files.items()
    }
    return apart(made)


def tagged(text: str) -> Iterator[Record]:
    """The sentences of a CoNLL file, their tags as IOB2 of three types."""
    rows = (line.split() for line in text.split("\n"))
    for empty, sentence in groupby(rows, key=lambda row: len(row) < 2):
        if not empty:
            words, tags = zip(*((row[0], row[-1]) for row in sentence), strict=True)
            if words != ("-DOCSTART-",):
                yield {"words": list(words), "tags": iob2(tags)}


def conll(sentence: Record) -> str:
    words = zip(sentence["words"], sentence["tags"], strict=True)
    return "".join("\t".join(pair) + "\n" for pair in words)


def iob2(tags: Sequence[str]) -> list[str]:
    """Of IOB1 or IOB2; types that are none of ours are no names."""
    found: list[str] = []
    before = ""
    for tag in tags:
        mark, _, kind = tag.partition("-")
        kind = TYPES.get(kind, "")
        begins = kind and (mark == "B" or kind != before)
        found.append(f"{'B' if begins else 'I'}-{kind}" if kind else "O")
        before = kind
    return found


def apart(made: dict[str, list[Record]]) -> dict[str, list[Record]]:
    """What is tested stays as it is; of the rest nothing that is like it, nor like what is
    validated with."""
    kept: dict[str, list[Record]] = {}
    seen: set[str] = set()
    for part in ("test", "valid", "train"):
        rows = [one for one in made[part] if key(one) not in seen]
        seen |= {key(one) for one in rows}
        kept[part] = rows
    return kept


def key(record: Record) -> str:
    return same(record["text"] if "text" in record else " ".join(record["words"]))


def sentences(sources: SourceFiles, held: Iterable[str]) -> Iterator[str]:
    """Of reviews of films, without those that are held out."""
    known = {*map(same, held)}
    for name in ("nltk/movie_reviews.zip", "nltk/subjectivity.zip"):
        for text in sources.texts(name):
            for line in (" ".join(line.split()) for line in text.split("\n")):
                if len(line.split()) in WORDS and same(line) not in known:
                    known.add(same(line))
                    yield line


def prose(sources: SourceFiles) -> list[str]:
    """Sentences of encyclopedia articles and speeches."""
    whole = (*encoder.contexts(sources), *encoder.speeches(sources))
    parts = (" ".join(part.split()) for text in whole for part in SENTENCES.split(text))
    found = [*dict.fromkeys(part for part in parts if len(part.split()) in WORDS)]
    return random.Random(1).sample(found, min(NAMED, len(found)))


def teach(target: Path, teacher: Path, device: str, seed: int = 1) -> None:
    """Records of what the teacher says. Its labels are drawn by its probabilities, so that what is
    learned from many of them is how sure it was; its tags are the most probable ones."""
    import glassformer as gf

    model, draw = gf.load(teacher, device=device), random.Random(seed)
    texts = (target / "untaught-sentiment.txt").read_text("utf-8").strip().split("\n")
    said = model.classify(texts, head="sentiment")
    labels = (draw.choices([*one.probabilities], [*one.probabilities.values()])[0] for one in said)
    rows = ({"text": text, "label": label} for text, label in zip(texts, labels, strict=True))
    taught(target, "sentiment", rows)
    texts = (target / "untaught-entities.txt").read_text("utf-8").strip().split("\n")
    found = model.tag(texts, head="entities")
    names = ({"words": [w.text for w in one.words], "tags": [*one.tags]} for one in found)
    taught(target, "entities", names)


def taught(target: Path, task: str, records: Iterable[Record]) -> None:
    named = ({"objective": PARTS[task], **one} for one in records)
    write_records(target / f"taught-{task}.jsonl", named)
