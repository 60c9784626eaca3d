"""Finds the words of a text and their positions.

Characters that belong to the one before (accents and vowel signs, joiners, skin tones of emoji)
stay with it, so that no position splits what a reader sees as one character.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, Literal, overload

from numpy.typing import NDArray

from glassformer.errors import ConfigError

Split = Literal["words", "characters", "spaces"]
SPLITS: dict[str, str] = {
    "words": "words; every sign and every Chinese character is a word",
    "characters": "every character is a word",
    "spaces": "text between spaces",
}
IDEOGRAPHS = (
    "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
SHADES = "\U0001f3fb-\U0001f3ff"  # skin tones
FLAGS = "[\U0001f1e6-\U0001f1ff]{2}"
EMPTY = "\u200b\ufeff"  # separate words, although Unicode does not class them as spaces
JOINER = "\u200d"


def find_words(text: str, split: Split = "words") -> Iterator[tuple[int, int]]:
    """Yields start and end of each word."""
    if split not in SPLITS:
        raise ConfigError(f"Words are split by {', '.join(SPLITS)}, not {split!r}.")
    return (match.span() for match in _patterns()[split].finditer(text))


@dataclass(frozen=True, eq=False)
class WordList(Sequence[str]):
    """The words of a text, each sliced from it when it is accessed.

    A long text has so many words that lists of them, and of their positions, would take far more
    memory than the text itself.
    """

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


def whole_characters(text: str, start: int, stop: int) -> tuple[int, int]:
    """Strips spaces from a span and extends it to whole characters at both ends."""
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
        rf"(?<=[\w{marks}])['’]{run}",  # English clitics, such as 's
        cluster,
    )
    return {
        "words": re.compile("|".join(words)),
        "characters": re.compile(cluster),
        "spaces": re.compile(rf"[^\s{EMPTY}]+"),
        "within": re.compile(f"[{marks}]"),
    }


def _marks() -> str:
    """Returns the characters that belong to the one before, as ranges of a regular expression."""
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
