"""Tasks room, parts: a long text as parts that a model can read, and back. What measures a text in
tokens comes in with it.

Parts are whole sentences of one paragraph wherever that is possible, and know where they stood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from glassformer.tasks.sentences import ASIAN, Span, blocks, sentences

Measure = Callable[[str], int]
CLAUSE = re.compile(r"[;:,—–]\s|[；：，、]")
GAP = re.compile(r"\s+")


def parts_of(text: str, measure: Measure, room: int, *, alone: bool = False) -> list[Span]:
    """Spans of a text that measure at most `room` each: as many sentences as fit, or, with
    `alone`, every sentence by itself. A sentence that is too long by itself is cut between
    clauses, or else between words."""
    found: list[Span] = []
    begins = {block.start for block in blocks(text)}
    for sentence in sentences(text):
        first = any(place in begins for place in range(found[-1].end if found else 0, sentence.start + 1))
        for piece in fitting(text, sentence, measure, room):
            whole = Span(found[-1].start, piece.end) if found and not (first or alone) else None
            if whole is not None and measure(as_line(text[slice(*whole)])) <= room:
                found[-1] = whole
            else:
                found.append(piece)
            first = False
    return found


def fitting(text: str, span: Span, measure: Measure, room: int) -> Iterator[Span]:
    """The span, or if it is too long its pieces."""
    while measure(as_line(text[slice(*span)])) > room:
        cut = _cut(text, span, measure, room)
        piece = _stripped(text, Span(span.start, cut))
        yield piece
        span = _stripped(text, Span(cut, span.end))
    if span.start < span.end:
        yield span


def _cut(text: str, span: Span, measure: Measure, room: int) -> int:
    """Where a span is cut so that what stands before fits: behind a clause, if that is not too
    soon, or else between words, or else anywhere."""
    low, high = span.start + 1, span.end  # a single letter is taken to fit
    while low < high - 1:
        middle = (low + high) // 2
        fits = measure(as_line(text[span.start : middle])) <= room
        low, high = (middle, high) if fits else (low, middle)
    half = (span.start + low) // 2
    for marks in (CLAUSE, GAP):
        ends = [match.end() for match in marks.finditer(text, half, low + 1)]
        if ends and span.start < min(ends[-1], low):
            return min(ends[-1], low)
    return low


def _stripped(text: str, span: Span) -> Span:
    part = text[slice(*span)]
    return Span(span.end - len(part.lstrip()), span.start + len(part.rstrip()))


def as_line(text: str) -> str:
    """A text that was wrapped, on one line."""
    return re.sub(r"[^\S\n\r]*[\n\r]+\s*", _joint, text)


def _joint(gap: re.Match[str]) -> str:
    return glue(gap.string[: gap.start()], gap.string[gap.end() :])


def glue(before: str, after: str) -> str:
    """What stands between two texts that belong together: in Chinese and Japanese nothing."""
    asian = ASIAN.fullmatch(before[-1:]) and ASIAN.fullmatch(after[:1])
    return "" if asian else " "


def rejoined(text: str, spans: Sequence[Span], written: Iterable[str]) -> str:
    """A text with every part rewritten. Line breaks and indents between parts stay; between
    sentences stands what their new language wants there."""
    begins = {block.start for block in blocks(text)}
    made, at = "", 0
    for span, new in zip(spans, written, strict=True):
        gap = text[at : span.start]
        on = at > 0 and not any(place in begins for place in range(at, span.start + 1))
        made += (glue(made, new) if on else gap) + new
        at = span.end
    return made + text[at:]
