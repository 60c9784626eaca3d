"""Texts that a model invents in silence, found by their improbable words.

The rules are those of OpenAI's program for `hallucination_silence_threshold`.
"""

from __future__ import annotations

from glassformer.tasks.speech.transcript import SpokenWord
from glassformer.tasks.speech.word_times import APPENDED, PREPENDED, TimedSegment

IMPROBABLE, SHORT, LONG = 0.15, 0.133, 2.0
"""A word's probability, and its shortest and longest seconds, outside which it is an anomaly."""
FIRST_WORDS = 8
NEAR = 2.0
"""Seconds from the edges of a window within which silence is assumed."""


def keep_before_hallucination(
    segments: list[TimedSegment],
    threshold: float,
    *,
    seek: int,
    complete: bool,
    start: float,
    length: float,
    window: float,
    last_speech: float,
    end: float,
    frame: float,
) -> int:
    """Drops segments that are probably invented, and returns where the next window begins.

    Args:
        segments: The segments of a window; those from the first invented one on are removed.
        threshold: Seconds of silence around an invented segment.
        seek: The frame where the next window would begin.
        complete: Whether nothing is said after the last segment.
        start: The start of the window in seconds.
        length: Its seconds of audio.
        window: Its seconds with padding.
        last_speech: The end of the last word before the window.
        end: The end of the recording, as far as it is known.
        frame: Seconds of a frame.
    """
    ends = [segment.words[-1].end for segment in segments if segment.words]
    if not complete and ends and ends[-1] > start and start + window - ends[-1] <= threshold:
        seek = round((start + length) / frame)
    first = next((segment for segment in segments if segment.words), None)
    if first is not None and is_anomaly(first) and first.start - start > threshold:
        gap = first.start - start
        segments.clear()
        return round((start + gap) / frame)
    for place, segment in enumerate(segments):
        if not segment.words:
            continue
        if is_anomaly(segment):
            following = next((s for s in segments[place + 1 :] if s.words), None)
            next_start = start + length if following is None else following.words[0].start
            silence_before = (
                segment.start - last_speech > threshold
                or segment.start < threshold
                or segment.start - start < NEAR
            )
            silence_after = (
                next_start - segment.end > threshold
                or (following is not None and is_anomaly(following))
                or start + window - segment.end < NEAR
            )
            if silence_before and silence_after:
                del segments[place:]
                at_end = end - segment.end < threshold
                return round((end if at_end else max(start + 1, segment.start)) / frame)
        last_speech = segment.end
    return seek


def is_anomaly(segment: TimedSegment) -> bool:
    """Returns whether the first words of a segment are improbable, too short or too long."""
    words = [w for w in segment.words if w.text not in PREPENDED + APPENDED][:FIRST_WORDS]
    total = sum(map(anomaly, words))
    return total >= 3 or total + 0.01 >= len(words)


def anomaly(word: SpokenWord) -> float:
    """Returns how unusual a word is."""
    seconds = word.end - word.start
    return (
        float(word.probability < IMPROBABLE)
        + 15 * max(0.0, SHORT - seconds)
        + max(0.0, seconds - LONG)
    )
