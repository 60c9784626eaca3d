"""Progress of the trials, for a terminal."""

from __future__ import annotations

import sys
import time

CLEAR = "\r\x1b[K"  # of a line of a terminal


class Progress:
    """A line about the trials on standard error, if that is a terminal."""

    def __init__(self, total: int) -> None:
        self.total, self.terminal = total, sys.stderr.isatty()
        self.begin, self.shown = time.monotonic(), 0.0

    def show(self, done: int, failures: int) -> None:
        now = time.monotonic()
        if self.terminal and now - self.shown > 0.5:
            left = (now - self.begin) / done * (self.total - done) / 60
            counts = f"{done:,} of {self.total:,} trials, {failures:,} failed"
            print(f"{CLEAR}{counts}, {left:.0f} min left", end="", file=sys.stderr, flush=True)
            self.shown = now

    def clear(self) -> None:
        if self.terminal:
            print(CLEAR, end="", file=sys.stderr, flush=True)
