"""A long text as parts that a model can read, and back. What measures a text in
tokens comes in with it.

Parts are whole sentences of one paragraph wherever that is possible, and know where they stood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from glassformer.tasks.sentences import ASIAN, TextSpan, blocks, sentences

Measure = Callable[[str], int]
Together = Literal["sentence", "paragraph", "text"]
CLAUSE = re.compile(r"[;:,—–]\s|[；：，、]")
GAP = re.compile(r"\s+")


def parts_of(
    text: str, measure: Measure, room: int, together: Together = "paragraph"
) -> list[TextSpan]:
    """Spans of a text that measure at most `room` each: as many sentences as fit, of one paragraph
    or of any, or every sentence by itself. A sentence that is too long by itself is cut between
    clauses, or else between words."""
    found: list[TextSpan] = []
    begins = _beginnings(text)
    for sentence in sentences(text):
        apart = together == "sentence" or (together == "paragraph" and sentence.start in begins)
        for piece in _fitting(text, sentence, measure, room):
            whole = None if apart or not found else TextSpan(found[-1].start, piece.end)
            if whole is not None and measure(text[slice(*whole)]) <= room:
                found[-1] = whole
            else:
                found.append(piece)
            apart = together == "sentence"
    return found


def _beginnings(text: str) -> set[int]:
    """Where paragraphs, headings and items begin."""
    return {_stripped(text, block).start for block in blocks(text)}


def _fitting(text: str, span: TextSpan, measure: Measure, room: int) -> Iterator[TextSpan]:
    """The span, or if it is too long its pieces."""
    while (cut := _cut(text, span, measure, room)) < span.end:
        yield _stripped(text, TextSpan(span.start, cut))
        span = _stripped(text, TextSpan(cut, span.end))
    if span.start < span.end:
        yield span


def _cut(text: str, span: TextSpan, measure: Measure, room: int) -> int:
    """Where a span is cut so that what stands before fits: behind a clause, if that is not too
    soon, or else between words, or else anywhere; its end, if all of it fits."""

    def fits(end: int) -> bool:
        return measure(text[span.start : end]) <= room

    low, high = span.start + 1, min(span.end, span.start + 4 * room)  # one letter is taken to fit
    while fits(high):  # no more is measured of a long text than is needed
        if high == span.end:
            return high
        low, high = high, min(span.end, 2 * high - span.start)
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    half = (span.start + low) // 2
    for marks in (CLAUSE, GAP):
        ends = [match.end() for match in marks.finditer(text, half, low + 1)]
        if ends and span.start < min(ends[-1], low):
            return min(ends[-1], low)
    return low


def _stripped(text: str, span: TextSpan) -> TextSpan:
    part = text[slice(*span)]
    return TextSpan(span.end - len(part.lstrip()), span.start + len(part.rstrip()))


def as_line(text: str) -> str:
    """A text that was wrapped, on one line."""
    return re.sub(r"[^\S\n\r]*[\n\r]+\s*", _joint, text)


def _joint(gap: re.Match[str]) -> str:
    return glue(gap.string[: gap.start()], gap.string[gap.end() :])


def glue(before: str, after: str) -> str:
    """What stands between two texts that belong together: in Chinese and Japanese nothing."""
    asian = ASIAN.fullmatch(before[-1:]) and ASIAN.fullmatch(after[:1])
    return "" if asian else " "


def rejoined(text: str, spans: Sequence[TextSpan], written: Iterable[str]) -> str:
    """A text with every part rewritten. Line breaks and indents between parts stay; between
    sentences stands what their new language wants there."""
    begins = _beginnings(text)
    made, at = "", 0
    for span, new in zip(spans, written, strict=True):
        gap = text[at : span.start]
        made += (gap if at == 0 or span.start in begins else glue(made, new)) + new
        at = span.end
    return made + text[at:]
