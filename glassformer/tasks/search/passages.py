"""A long text in pieces that a model reads whole, with their offsets.

Paragraphs are put together while they fit, a paragraph that does not fit is cut between sentences,
a sentence between words, and a word (or a text without spaces) between tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from glassformer.tasks.sentences import sentences
from glassformer.text import Tokenizer

Places = Sequence[tuple[int, int]]  # starts and ends in a text


class Passage(NamedTuple):
    """Where in its text it stands, as Python slices it."""

    start: int
    end: int
    text: str


def passages(text: str, tokenizer: Tokenizer, length: int) -> Iterator[Passage]:
    """Pieces of at most so many tokens, without the blanks around them."""

    def size(piece: str) -> int:
        return len(tokenizer.ids(piece))

    def tokens(piece: str) -> Places:
        """Runs of `length` tokens; a character of several tokens is not cut."""
        offsets = tokenizer.encode(piece, special=False).offsets
        edges = sorted({0, *(start for start, _ in offsets[::length])})
        return list(pairwise([*edges, len(piece)]))

    ways = (paragraphs, sentences, words, tokens)
    for start, end in packed(text, 0, len(text), ways, size, length):
        yield Passage(start, end, text[start:end])


def packed(
    text: str,
    start: int,
    end: int,
    ways: Sequence[Callable[[str], Places]],
    size: Callable[[str], int],
    length: int,
) -> Iterator[tuple[int, int]]:
    """What the first way cuts, put together while it fits; what is too long by itself, cut by the
    next. What the last way cuts is as small as can be."""
    held: tuple[int, int] | None = None
    held_size = 0
    for first, last in ways[0](text[start:end]):
        first, last = start + first, start + last
        if held is not None:
            more = size(text[held[1] : last])  # the blanks between are read too
            if held_size + more <= length:
                held, held_size = (held[0], last), held_size + more
                continue
            yield held
        own = size(text[first:last])
        held, held_size = (first, last), own
        if own > length and len(ways) > 1:
            held = None
            yield from packed(text, first, last, ways[1:], size, length)
    if held is not None:
        yield held


def paragraphs(text: str) -> Places:
    """Between blank lines."""
    edges = [found.end() for found in re.finditer(r"\n[^\S\n]*\n\s*", text)]
    places = [_stripped(text, *edge) for edge in pairwise([0, *edges, len(text)])]
    return [(start, end) for start, end in places if start < end]


def words(text: str) -> Places:
    return [found.span() for found in re.finditer(r"\S+", text)]


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return end - len(piece.lstrip()), start + len(piece.rstrip())
