"""Subtitles of segments: line breaks, and highlighted words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from glassformer.errors import ConfigError
from glassformer.tasks.speech.transcript import Segment, SpokenWord

LONG_PAUSE = 3.0
"""Seconds between two words after which a new subtitle begins."""


class Cue(NamedTuple):
    """A text that is shown from `start` to `end`."""

    start: float
    end: float
    text: str


def cues_of(
    segments: Sequence[Segment],
    max_line_width: int | None,
    max_line_count: int | None,
    highlight_words: bool,
) -> Iterator[Cue]:
    """Yields the subtitles of segments; the options need word timestamps."""
    layout = max_line_width is not None or max_line_count is not None
    if (layout or highlight_words) and any(segment.words is None for segment in segments):
        raise ConfigError(
            "max_line_width, max_line_count and highlight_words need the times of words; set "
            "word_timestamps."
        )
    for segment in segments:
        name = "" if segment.channel is None else f"[{segment.channel + 1}] "
        if segment.words and (layout or highlight_words):
            for lines in _screens(segment.words, max_line_width or 1000, max_line_count):
                words = [word for line in lines for word in line]
                if highlight_words:
                    yield from _highlighted(lines)
                else:
                    text = "\n".join("".join(w.text for w in line).strip() for line in lines)
                    yield Cue(words[0].start, words[-1].end, name + text)
        elif segment.text.strip():
            yield Cue(segment.start, segment.end, name + segment.text.strip())


def _screens(
    words: Sequence[SpokenWord], width: int, count: int | None
) -> Iterator[list[list[SpokenWord]]]:
    """Yields the lines of each subtitle: at most `count` lines of at most `width` characters."""
    lines: list[list[SpokenWord]] = [[]]
    length = 0
    for number, word in enumerate(words):
        pause = number > 0 and word.start - words[number - 1].end > LONG_PAUSE
        too_long = bool(lines[-1]) and length + len(word.text) > width
        if pause or (too_long and count is not None and len(lines) >= count):
            yield lines
            lines, length = [[]], 0
        elif too_long:
            lines.append([])
            length = 0
        lines[-1].append(word)
        length += len(word.text)
    if lines[-1]:
        yield lines


def _highlighted(lines: list[list[SpokenWord]]) -> Iterator[Cue]:
    """Yields a subtitle for each word, in which it is underlined, and for each pause."""
    words = [word for line in lines for word in line]
    last = words[0].start
    for spoken in words:
        if spoken.start > last:
            yield Cue(last, spoken.start, _marked(lines, None))
        yield Cue(spoken.start, spoken.end, _marked(lines, spoken))
        last = spoken.end


def _marked(lines: list[list[SpokenWord]], marked: SpokenWord | None) -> str:
    def shown(word: SpokenWord) -> str:
        if word is not marked:
            return word.text
        bare = word.text.lstrip()
        return f"{word.text[: len(word.text) - len(bare)]}<u>{bare}</u>"

    return "\n".join("".join(map(shown, line)).strip() for line in lines)
