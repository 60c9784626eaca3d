"""Segments of a decoded window by its timestamps, and where the next window begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class TimedTokens(NamedTuple):
    """Tokens of a segment, with its start and end in seconds from the start of the window."""

    start: float
    end: float
    tokens: tuple[int, ...]


class SplitWindow(NamedTuple):
    """The segments of a window.

    `advance` is the number of frames after which the next window begins. `complete` tells that
    nothing is said after the last segment.
    """

    segments: list[TimedTokens]
    advance: int
    complete: bool


def split_window(
    tokens: Sequence[int], begin: int, frames: int, seconds: float, *, keep_rest: bool = False
) -> SplitWindow:
    """Splits the tokens of a window at pairs of timestamps, as OpenAI's program does.

    Args:
        tokens: The tokens, without the end token.
        begin: The first timestamp token; each following one is 2 frames later.
        frames: The number of frames of the window.
        seconds: Seconds of a frame.
        keep_rest: Whether tokens behind the last pair are a segment; otherwise the next window
            begins at the last pair and decodes them again. Times then end with the window.
    """

    def time(token: int) -> float:
        place = (token - begin) * 2
        return (min(place, frames) if keep_rest else place) * seconds

    is_time = [token >= begin for token in tokens]
    complete = is_time[-2:] == [False, True]
    pairs = [i for i in range(1, len(tokens)) if is_time[i - 1] and is_time[i]]
    if not pairs:
        times = [token for token in tokens if token >= begin]
        end = time(times[-1]) if times and times[-1] != begin else frames * seconds
        return SplitWindow([TimedTokens(0.0, end, tuple(tokens))], frames, complete)
    ends = [*pairs, len(tokens)] if complete else pairs
    segments, last = [], 0
    for end_place in ends:
        part = tuple(tokens[last:end_place])
        segments.append(TimedTokens(time(part[0]), time(part[-1]), part))
        last = end_place
    if complete:
        return SplitWindow(segments, frames, True)
    if keep_rest:
        rest = tuple(tokens[last:])
        segments.append(TimedTokens(time(rest[0]), frames * seconds, rest))
        return SplitWindow(segments, frames, True)
    return SplitWindow(segments, (tokens[last - 1] - begin) * 2, False)
