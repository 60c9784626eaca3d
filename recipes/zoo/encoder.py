"""The texts of `encoder`: English under open licenses, a paragraph or a sentence a line.

Texts that other models of the zoo are tested or validated with are left out. Not used, though they
are at hand: DailyDialog's dialogues, which are CC BY-NC-SA at their source."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

from sources import SourceFiles
from splits import read_records, same, write_lines

JOINED = re.compile(r" @([-,.])@ ")  # how WikiText writes what a hyphen or a comma joins
TAG = re.compile(r"</?\w+>")


def make(sources: SourceFiles, target: Path) -> None:
    held = tested(target.parent)
    texts = {
        "wikitext2": wikitext(sources.text("wikitext2/train.txt")),
        "squad": contexts(sources),
        "tatoeba": english(target.parent / "translator"),
        "reviews": reviews(sources),
        "speeches": speeches(sources),
        "requests": requests(sources),
    }
    for name, lines in texts.items():
        found = dict.fromkeys(" ".join(line.split()) for line in lines)
        kept = (line for line in found if line and same(line) not in held)
        write_lines(target / "train" / f"{name}.txt", kept)
    write_lines(target / "valid.txt", wikitext(sources.text("wikitext2/valid.txt")))
    test = "".join(f"{line}\n" for line in wikitext(sources.text("wikitext2/test.txt")))
    (target / "eval").mkdir(parents=True, exist_ok=True)
    packed = gzip.compress(test.encode(), 9, mtime=0)
    (target / "eval" / "wikitext2-test.txt.gz").write_bytes(packed)


def wikitext(text: str) -> Iterator[str]:
    """Hyphens and numbers together again; rare words are unknown ones, never asked for."""
    for line in text.split("\n"):
        if line.strip():
            yield JOINED.sub(r"\1", line.strip()).replace("<unk>", "[UNK]")


def contexts(sources: SourceFiles) -> Iterator[str]:
    """Paragraphs of Wikipedia that questions are asked about."""
    for record in json.loads(sources.text("squad1_subset/squad_4330.json")):
        yield record["context"]
    for article in json.loads(sources.text("xquad/xquad.en.json"))["data"]:
        for paragraph in article["paragraphs"]:
            yield paragraph["context"]


def english(folder: Path) -> Iterator[str]:
    """Of the translator's training pairs."""
    for code in ("fr", "zh"):
        for record in read_records(folder / f"train-{code}.jsonl"):
            if record["target_language"] == "en":
                yield record["target"]


def reviews(sources: SourceFiles) -> Iterator[str]:
    """Of films (whole ones, and sentences) and of things that are bought."""
    for text in sources.texts("nltk/movie_reviews.zip"):
        yield " ".join(text.split())
    for name in ("nltk/subjectivity.zip", "nltk/pros_cons.zip"):
        for text in sources.texts(name):
            yield from (TAG.sub("", line) for line in text.split("\n"))


def speeches(sources: SourceFiles) -> Iterator[str]:
    for name in ("nltk/state_union.zip", "nltk/inaugural.zip"):
        for text in sources.texts(name):
            yield from text.split("\n")


def requests(sources: SourceFiles) -> Iterator[str]:
    """What people ask assistants and banks."""
    for text, _ in json.loads(sources.text("clinc150/data_full.json"))["train"]:
        yield text
    for row in csv.DictReader(io.StringIO(sources.text("banking77/train.csv"))):
        yield row["text"]


def tested(folder: Path) -> set[str]:
    """What the translator and the reader are tested and validated with."""
    tables = [*folder.glob("translator/eval/*.tsv"), *folder.glob("reader/eval/*.tsv")]
    cells = (
        cell for path in tables for cell in path.read_text("utf-8").replace("\n", "\t").split("\t")
    )
    records = [one for path in folder.glob("*/valid-*.jsonl") for one in read_records(path)]
    texts = (one[name] for one in records for name in ("text", "target") if name in one)
    return {*map(same, (*cells, *texts))}
