"""Words of segments: punctuation joins words, and times that are too long are shortened.

The rules are those of OpenAI's program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from glassformer.tasks.speech.transcript import SpokenWord
from glassformer.tasks.speech.word_alignment import WordTiming

PREPENDED = "\"'“¿([{-"
APPENDED = "\"'.。,，!！?？:：”)]}、"
SENTENCE_ENDS = ".。!！?？"
LONGEST_MEDIAN = 0.7


@dataclass
class TimedSegment:
    """A segment whose times may still change, with its text tokens and words."""

    start: float
    end: float
    tokens: tuple[int, ...]
    text_tokens: tuple[int, ...]
    words: list[SpokenWord] = field(default_factory=list)


def add_words(
    segments: Sequence[TimedSegment],
    timings: list[WordTiming],
    offset: float,
    last_speech: float,
) -> None:
    """Adds the words to the segments of a window, and adapts the times of the segments.

    Args:
        segments: The segments; they change in place.
        timings: The words of the window.
        offset: The start of the window in seconds.
        last_speech: The end of the last word before the window.
    """
    durations = np.array([t.end - t.start for t in timings])
    durations = durations[durations.nonzero()]
    median = min(LONGEST_MEDIAN, float(np.median(durations)) if len(durations) else 0.0)
    longest = 2 * median
    if len(durations):
        shorten_at_sentences(timings, longest)
    merge_punctuation(timings)
    left = iter(timings)
    for segment in segments:
        taken, words = 0, list[SpokenWord]()
        while taken < len(segment.text_tokens):
            timing = next(left, None)
            if timing is None:
                break
            if timing.word:
                start, end = (round(offset + t, 2) for t in (timing.start, timing.end))
                words.append(SpokenWord(timing.word, start, end, timing.probability))
            taken += len(timing.tokens)
        if words:
            words = after_pause(words, segment, last_speech, median)
            last_speech = segment.end
        segment.words = words


def shorten_at_sentences(timings: Sequence[WordTiming], longest: float) -> None:
    """Shortens words at the ends of sentences, which would contain the pause."""
    for previous, timing in pairwise(timings):
        if timing.end - timing.start > longest:
            if timing.word in SENTENCE_ENDS:
                timing.end = timing.start + longest
            elif previous.word in SENTENCE_ENDS:
                timing.start = timing.end - longest


def merge_punctuation(timings: Sequence[WordTiming]) -> None:
    """Joins punctuation with its word; what was joined becomes empty."""
    following = len(timings) - 1
    for place in range(len(timings) - 2, -1, -1):
        mark, word = timings[place], timings[following]
        if mark.word.startswith(" ") and mark.word.strip() in PREPENDED:
            word.word, word.tokens = mark.word + word.word, mark.tokens + word.tokens
            mark.word, mark.tokens = "", ()
        else:
            following = place
    previous = 0
    for place in range(1, len(timings)):
        word, mark = timings[previous], timings[place]
        if not word.word.endswith(" ") and mark.word in APPENDED:
            word.word, word.tokens = word.word + mark.word, word.tokens + mark.tokens
            mark.word, mark.tokens = "", ()
        else:
            previous = place


def after_pause(
    words: list[SpokenWord], segment: TimedSegment, last_speech: float, median: float
) -> list[SpokenWord]:
    """Shortens the first words after a pause, and agrees on the times with the segment."""
    longest = 2 * median
    starts, ends = [w.start for w in words], [w.end for w in words]
    several = len(words) > 1
    if ends[0] - last_speech > 4 * median and (
        ends[0] - starts[0] > longest or (several and ends[1] - starts[0] > 2 * longest)
    ):
        if several and ends[1] - starts[1] > longest:
            ends[0] = starts[1] = max(ends[1] / 2, ends[1] - longest)
        starts[0] = max(0.0, ends[0] - longest)
    if segment.start < ends[0] and segment.start - 0.5 > starts[0]:
        starts[0] = max(0.0, min(ends[0] - median, segment.start))
    else:
        segment.start = starts[0]
    if segment.end > starts[-1] and segment.end + 0.5 < ends[-1]:
        ends[-1] = max(starts[-1] + median, segment.end)
    else:
        segment.end = ends[-1]
    return [
        SpokenWord(w.text, start, end, w.probability)
        for w, start, end in zip(words, starts, ends, strict=True)
    ]
