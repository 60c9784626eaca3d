"""Stopping criteria of text generation."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from glassformer.generate.config import GenerationConfig
from glassformer.generate.history import SequenceState

if TYPE_CHECKING:
    from glassformer.generate.strategy import GenerationRequest

Decode = Callable[["GenerationRequest", Sequence[int]], str]


class StoppingCriteria:
    """Checks whether a sequence ends: in this order "eos", "string", "length", "time"."""

    def __init__(self, config: GenerationConfig, decode: Decode | None) -> None:
        self.eos = frozenset(config.eos_token_id)
        self.strings = config.stop_strings
        self.decode = decode
        self.max_time = config.max_time
        self.begun: dict[int, float] = {}  # keyed by request number

    def begin(self, requests: Sequence[GenerationRequest]) -> None:
        """Starts the clock of requests now, not when they began to wait in the queue."""
        now = time.monotonic()
        self.begun |= {request.number: now for request in requests}

    def of(self, history: SequenceState, requests: Sequence[GenerationRequest]) -> list[str | None]:
        """Returns why each row stops after its newest token, or None where it continues."""
        made, last = history.made.tolist(), history.last.tolist()

        def new(row: int) -> Callable[[], list[int]]:
            return lambda: history.new(row)[0]

        return [
            self.reason(last[row], made[row], request, new(row))
            for row, request in enumerate(requests)
        ]

    def reason(
        self, token: int, made: int, request: GenerationRequest, tokens: Callable[[], list[int]]
    ) -> str | None:
        if token in self.eos:
            return "eos"
        if self.strings and self.cut(request, tokens()) is not None:
            return "string"
        if made >= request.limit:
            return "length"
        if self.max_time is not None:
            spent = time.monotonic() - self.begun[request.number]
            return "time" if spent >= self.max_time else None
        return None

    def cut(self, request: GenerationRequest, tokens: Sequence[int]) -> str | None:
        """Returns the text before the first stop string, or None if there is no stop string."""
        assert self.decode is not None
        text = self.decode(request, tokens)
        places = [at for string in self.strings if (at := text.find(string)) >= 0]
        return text[: min(places)] if places else None


def unsure(text: str, strings: Sequence[str]) -> int:
    """Returns how many trailing characters may be the beginning of a stop string."""
    longest = max((len(string) - 1 for string in strings), default=0)
    for count in range(min(longest, len(text)), 0, -1):
        if any(string.startswith(text[-count:]) for string in strings):
            return count
    return 0
