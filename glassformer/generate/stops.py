"""Generate room, stops: when a text is at its end, and why."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from glassformer.generate.history import History
from glassformer.generate.knobs import Knobs

Decode = Callable[[Sequence[int]], str]


class Stops:
    """Reasons, in this order: "eos", "string", "length", "time"."""

    def __init__(self, knobs: Knobs, decode: Decode | None) -> None:
        self.eos = frozenset(knobs.eos_token_id)
        self.strings = knobs.stop_strings
        self.decode = decode
        self.end = None if knobs.max_time is None else time.monotonic() + knobs.max_time

    def of(self, history: History, limits: Sequence[int]) -> list[str | None]:
        """Why each row stops after its newest token; None where it goes on."""
        made, last = history.made.tolist(), history.last.tolist()

        def new(row: int) -> Callable[[], list[int]]:
            return lambda: history.new(row)[0]

        return [
            self.reason(last[row], made[row], limit, new(row)) for row, limit in enumerate(limits)
        ]

    def reason(
        self, token: int, made: int, limit: int, tokens: Callable[[], list[int]]
    ) -> str | None:
        if token in self.eos:
            return "eos"
        if self.strings and self.cut(tokens()) is not None:
            return "string"
        if made >= limit:
            return "length"
        if self.end is not None and time.monotonic() >= self.end:
            return "time"
        return None

    def cut(self, tokens: Sequence[int]) -> str | None:
        """The text before the first stop string, if there is one."""
        assert self.decode is not None
        text = self.decode(tokens)
        places = [at for string in self.strings if (at := text.find(string)) >= 0]
        return text[: min(places)] if places else None
