"""The texts of written.py: gathered, cut down, put together."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bench import Bench

LONGEST = 4000  # characters of an e-mail
TRIED = 24  # lines, in a trial
SUMMED_UP = ("scitldr", "aeslc")
FILES = {
    "multi30k": [f"multi30k/{part}.{side}" for side in ("de", "fr", "en")
                 for part in ("train", "val", "test_2016_flickr")],
    "summaries": [f"{task}/{part}.jsonl" for task in SUMMED_UP
                  for part in ("train", "dev", "test")],
    "lm": ["wikitext2/train.txt", "wikitext2/valid.txt"],
}  # fmt: skip
KEPT = ("source", "target", "email", "subject")


def gather(source: Path, target: Path) -> None:
    """What is needed of the files, without columns that nobody reads."""
    for name in (name for several in FILES.values() for name in several):
        text = (source / name).read_text("utf-8")
        if name.endswith(".jsonl"):
            text = "".join(trimmed(json.loads(line)) for line in lines_of(source / name))
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for task in SUMMED_UP:
        tenth = (f"{line}\n" for line in lines_of(target / task / "train.jsonl")[::10])
        (target / task / "train-tenth.jsonl").write_text("".join(tenth), "utf-8")


def lines_of(path: str | Path) -> list[str]:
    """As files have them: `splitlines` knows more ends of a line than they do."""
    return Path(path).read_text("utf-8").removesuffix("\n").split("\n")


def trimmed(record: dict[str, Any]) -> str:
    kept = {key: record[key] for key in KEPT if key in record}
    if "email" in kept:
        kept["email"] = kept["email"][:LONGEST]
    return json.dumps(kept, ensure_ascii=False) + "\n"


def prepare(bench: Bench, group: str) -> None:
    """In a trial, a little of each text; of summaries' training texts a tenth besides."""
    if bench.trial:
        for name in FILES[group]:
            bench.write(name, "".join(lines(bench, name)))
    if group == "summaries":
        for task in SUMMED_UP:
            tenth = "".join(lines(bench, f"{task}/train.jsonl")[::10])
            bench.write(f"{task}/train-tenth.jsonl", tenth)


def lines(bench: Bench, name: str) -> list[str]:
    """Each with its end."""
    whole = (f"{line}\n" for line in bench.original(name).removesuffix("\n").split("\n"))
    return list(islice(whole, TRIED if bench.trial else None))


def running_text(bench: Bench) -> None:
    """For a language model: an encyclopedia, and what is to be summed up, without its summaries."""
    for split in ("train", "valid"):
        text = "".join(lines(bench, f"wikitext2/{split}.txt"))
        bench.write(f"summaries/{split}.txt", re.sub(r" @([-,.])@ ", r"\1", text))
    named = [f"{task}/train.jsonl" for task in SUMMED_UP]
    records = [json.loads(line) for name in named for line in lines(bench, name)]
    said = [" ".join(r["source"]) if "source" in r else r.get("email", "") for r in records]
    bench.write("summaries/sources.txt", "\n\n".join(said))


def tested(files: Sequence[str], most: int | None) -> tuple[list[str], list[list[str]]]:
    """The test texts, and of each what is right."""
    if len(files) == 2:
        sources, right = (lines_of(name)[:most] for name in files)
        return sources, [[one] for one in right]
    records = map(json.loads, lines_of(files[0]))
    pairs = [(r.get("source") or r.get("email"), r.get("target") or r.get("subject"))
             for r in records]  # fmt: skip
    pairs = [(source, target) for source, target in pairs if source and target][:most]
    return (
        [" ".join(source) if isinstance(source, list) else source for source, _ in pairs],
        [target if isinstance(target, list) else [target] for _, target in pairs],
    )
