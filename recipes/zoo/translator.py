"""The pairs of `translator`: Tatoeba's French-English and Chinese-English, in all four directions.

No sentence of a test or validation pair, in either language, is learned from: what differs in case
and punctuation alone counts as the same. Chinese is in simplified characters throughout (Tatoeba
has both); that takes `pip install opencc-python-reimplemented`."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sources import SourceFiles
from splits import same, write_records, write_table

FILES = {"fr": "tatoeba_fra/fra.txt", "zh": "tatoeba_cmn/cmn.txt"}
HELD_OUT = 1000  # pairs, to test and to validate, of each language
SPACES = re.compile(r"[\s\u00a0\u202f]+")  # French has narrow ones before its signs

Pair = tuple[str, str]  # English, and the other language


def make(sources: SourceFiles, target: Path) -> None:
    convert = {"fr": str, "zh": simplified()}
    pairs = {code: read(sources.text(name), convert[code]) for code, name in FILES.items()}
    split = {"train": pairs}
    for part in ("test", "valid"):
        split[part], split["train"] = held_out(split["train"], HELD_OUT)
    for code in FILES:
        rows = split["test"][code]
        write_table(target / "eval" / f"{code}-en.tsv", (code, "en"), ((b, a) for a, b in rows))
    for part in ("train", "valid"):
        for code in FILES:
            write_records(target / f"{part}-{code}.jsonl", both_ways(split[part][code], code))


def simplified() -> Callable[[str], str]:
    try:
        from opencc import OpenCC
    except ImportError:
        raise SystemExit(
            "Chinese is brought into simplified characters by opencc; "
            "pip install opencc-python-reimplemented"
        ) from None
    convert: Callable[[str], str] = OpenCC("t2s").convert
    return convert


def read(text: str, convert: Callable[[str], str]) -> list[Pair]:
    """English and another language with a tab between; further columns are ignored."""
    rows = (line.split("\t")[:2] for line in text.split("\n") if "\t" in line)
    cleaned = ((tidy(a), tidy(convert(b))) for a, b in rows)
    return list(dict.fromkeys(pair for pair in cleaned if all(map(same, pair))))


def tidy(text: str) -> str:
    return SPACES.sub(" ", text).strip()


def held_out(
    pairs: dict[str, list[Pair]], count: int, seed: int = 1
) -> tuple[dict[str, list[Pair]], dict[str, list[Pair]]]:
    """So many pairs of each language, of as many different sentences, and all other pairs that
    share none of theirs."""
    apart: dict[str, list[Pair]] = {}
    seen: set[str] = set()
    for code, several in pairs.items():
        apart[code] = []
        for pair in random.Random(seed).sample(several, len(several)):
            keys = {*map(same, pair)}
            if not keys & seen:
                apart[code].append(pair)
                seen |= keys
            if len(apart[code]) == count:
                break
    rest = {code: without(several, seen) for code, several in pairs.items()}
    return apart, rest


def without(pairs: Sequence[Pair], seen: set[str]) -> list[Pair]:
    return [pair for pair in pairs if not {*map(same, pair)} & seen]


def both_ways(pairs: Iterable[Pair], code: str) -> Iterable[dict[str, str]]:
    for english, other in pairs:
        yield {"source": other, "target": english, "target_language": "en"}
        yield {"source": english, "target": other, "target_language": code}
