"""Splits a long text into parts that a model can read, and joins the rewritten parts.

Parts are whole sentences of one paragraph wherever possible, and keep their positions.
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
    text: str, measure: Measure, capacity: int, together: Together = "paragraph"
) -> list[TextSpan]:
    """Splits a text into spans of at most `capacity` each.

    A sentence that is too long is split between clauses, or else between words.

    Args:
        text: The text.
        measure: Returns the size of a text, such as its number of tokens.
        capacity: The maximum size of a part.
        together: What a part may contain: as many sentences as fit, of one "paragraph" or of the
            whole "text", or a single "sentence".
    """
    found: list[TextSpan] = []
    begins = _beginnings(text)
    for sentence in sentences(text):
        apart = together == "sentence" or (together == "paragraph" and sentence.start in begins)
        for piece in _fitting(text, sentence, measure, capacity):
            joined = None if apart or not found else TextSpan(found[-1].start, piece.end)
            if joined is not None and measure(text[slice(*joined)]) <= capacity:
                found[-1] = joined
            else:
                found.append(piece)
            apart = together == "sentence"
    return found


def _beginnings(text: str) -> set[int]:
    """Returns the starts of paragraphs, headings and list items."""
    return {_stripped(text, block).start for block in blocks(text)}


def _fitting(text: str, span: TextSpan, measure: Measure, capacity: int) -> Iterator[TextSpan]:
    """Yields the span, or its pieces if it is too long."""
    while (cut := _cut(text, span, measure, capacity)) < span.end:
        yield _stripped(text, TextSpan(span.start, cut))
        span = _stripped(text, TextSpan(cut, span.end))
    if span.start < span.end:
        yield span


def _cut(text: str, span: TextSpan, measure: Measure, capacity: int) -> int:
    """Returns where to split a span so that the first part fits, or its end if all of it fits.

    The split is after a clause if that is not too early, or else between words, or else anywhere.
    """

    def fits(end: int) -> bool:
        return measure(text[span.start : end]) <= capacity

    low, high = (
        span.start + 1,
        min(span.end, span.start + 4 * capacity),
    )  # assumes one character fits
    while fits(high):  # measures no more of a long text than needed
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
    """Joins the lines of a wrapped text."""
    return re.sub(r"[^\S\n\r]*[\n\r]+\s*", _joint, text)


def _joint(gap: re.Match[str]) -> str:
    return glue(gap.string[: gap.start()], gap.string[gap.end() :])


def glue(before: str, after: str) -> str:
    """Returns the separator of two texts: nothing in Chinese and Japanese, else a space."""
    asian = ASIAN.fullmatch(before[-1:]) and ASIAN.fullmatch(after[:1])
    return "" if asian else " "


def rejoined(text: str, spans: Sequence[TextSpan], written: Iterable[str]) -> str:
    """Returns the text with every part replaced by its rewritten version.

    Line breaks and indentation between parts are kept; between sentences stands the separator of
    the new language.
    """
    begins = _beginnings(text)
    made, at = "", 0
    for span, new in zip(spans, written, strict=True):
        gap = text[at : span.start]
        made += (gap if at == 0 or span.start in begins else glue(made, new)) + new
        at = span.end
    return made + text[at:]
