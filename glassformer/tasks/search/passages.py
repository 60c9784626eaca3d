"""Splits a text into passages that a model can read, with their offsets.

Paragraphs are combined while they fit; a paragraph that does not fit is split between sentences, a
sentence between words, and a word (or a text without spaces) between tokens.
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
    """A passage, with its start and end in the text."""

    start: int
    end: int
    text: str


def passages(text: str, tokenizer: Tokenizer, length: int) -> Iterator[Passage]:
    """Yields passages of at most `length` tokens, without white space around them."""

    def size(piece: str) -> int:
        return len(tokenizer.ids(piece))

    def tokens(piece: str) -> Places:
        """Splits into runs of `length` tokens; a character of several tokens is not split."""
        offsets = tokenizer.encode(piece, special=False).offsets
        edges = sorted({0, *(start for start, _ in offsets[::length])})
        return list(pairwise([*edges, len(piece)]))

    ways = (paragraphs, sentences, words, tokens)
    for start, end in pack_spans(text, 0, len(text), ways, size, length):
        yield Passage(start, end, text[start:end])


def pack_spans(
    text: str,
    start: int,
    end: int,
    ways: Sequence[Callable[[str], Places]],
    size: Callable[[str], int],
    length: int,
) -> Iterator[tuple[int, int]]:
    """Yields spans of at most `length`.

    The pieces of the first splitter are combined while they fit; a piece that is too long is split
    by the next splitter. The pieces of the last splitter are not split further.

    Args:
        text: The text.
        start: The start of the part to split.
        end: The end of the part to split.
        ways: The splitters, from coarse to fine.
        size: Returns the size of a piece.
        length: The maximum size of a span.
    """
    held: tuple[int, int] | None = None
    held_size = 0
    for first, last in ways[0](text[start:end]):
        first, last = start + first, start + last
        if held is not None:
            more = size(text[held[1] : last])  # includes the white space between
            if held_size + more <= length:
                held, held_size = (held[0], last), held_size + more
                continue
            yield held
        own = size(text[first:last])
        held, held_size = (first, last), own
        if own > length and len(ways) > 1:
            held = None
            yield from pack_spans(text, first, last, ways[1:], size, length)
    if held is not None:
        yield held


def paragraphs(text: str) -> Places:
    """Splits at blank lines."""
    edges = [found.end() for found in re.finditer(r"\n[^\S\n]*\n\s*", text)]
    places = [_stripped(text, *edge) for edge in pairwise([0, *edges, len(text)])]
    return [(start, end) for start, end in places if start < end]


def words(text: str) -> Places:
    return [found.span() for found in re.finditer(r"\S+", text)]


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return end - len(piece.lstrip()), start + len(piece.rstrip())
