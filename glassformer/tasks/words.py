"""Words of a text, and where they stand in it. A text comes in, places go out.

What belongs to the letter before it (accents and vowel signs, joiners, shades of an emoji) stays
with it, so that no place is ever within what a reader sees as one letter."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, Literal, overload

from numpy.typing import NDArray

from glassformer.errors import GlassformerError

Split = Literal["words", "characters", "spaces"]
SPLITS: dict[str, str] = {
    "words": "words, and every sign and every Chinese character by itself",
    "characters": "every character by itself",
    "spaces": "what stands between spaces",
}
IDEOGRAPHS = (
    "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
SHADES = "\U0001f3fb-\U0001f3ff"  # of skin
FLAGS = "[\U0001f1e6-\U0001f1ff]{2}"
EMPTY = "\u200b\ufeff"  # between words, though Unicode has them as no spaces
JOINER = "\u200d"


def find_words(text: str, split: Split = "words") -> Iterator[tuple[int, int]]:
    """Where each word begins and ends, as Python slices a text."""
    if split not in SPLITS:
        raise GlassformerError(f"Words are split by {', '.join(SPLITS)}, not {split!r}.")
    return (match.span() for match in _patterns()[split].finditer(text))


@dataclass(frozen=True, eq=False)
class WordList(Sequence[str]):
    """The words of a text, each cut out of it when it is looked at: a long text has so many that
    lists of them, and of their places, would take far more room than it does itself."""

    text: str
    starts: NDArray[Any]
    ends: NDArray[Any]

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, int):
            return self.text[self.starts[place] : self.ends[place]]
        spans = zip(self.starts[place], self.ends[place], strict=True)
        return [self.text[start:end] for start, end in spans]


def whole_letters(text: str, start: int, stop: int) -> tuple[int, int]:
    """The same span without spaces at its ends, and with all of its first and its last letter."""
    while start < stop and text[start].isspace():
        start += 1
    while start < stop and text[stop - 1].isspace():
        stop -= 1
    if start < stop:
        within = _patterns()["within"]
        while start and (within.match(text, start) or text[start - 1] == JOINER):
            start -= 1
        while stop < len(text) and (within.match(text, stop) or text[stop - 1] == JOINER):
            stop += 1
    return start, stop


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    marks = _marks()
    letter = rf"[^\W{IDEOGRAPHS}]"
    run = rf"{letter}(?:{letter}|[{marks}])*"
    sign = rf"[^\s{marks}{EMPTY}][{marks}]*"
    cluster = rf"(?:{FLAGS}|{sign})(?:(?<={JOINER}){sign})*"
    words = (
        r"https?://\S*[\w/]",
        rf"(?:[^\W\d_{IDEOGRAPHS}]\.){{2,}}",  # U.S.
        rf"[@#]?{run}(?:(?:[-.·](?=\w)|(?<=\d)[,:](?=\d)){run})*",
        rf"(?<=[\w{marks}])['’]{run}",  # what English leans on the word before
        cluster,
    )
    return {
        "words": re.compile("|".join(words)),
        "characters": re.compile(cluster),
        "spaces": re.compile(rf"[^\s{EMPTY}]+"),
        "within": re.compile(f"[{marks}]"),
    }


def _marks() -> str:
    """What belongs to the letter before it, as ranges of a regular expression."""
    apart = {*map(ord, EMPTY)}
    kinds = {"Mn", "Mc", "Me", "Cf"}
    points = [
        point
        for point in chain(range(0x20000), range(0xE0000, 0xE1000))  # planes that have any
        if unicodedata.category(chr(point)) in kinds and point not in apart
    ]
    ranges: list[list[int]] = []
    for point in points:
        if ranges and point == ranges[-1][1] + 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return SHADES + "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
