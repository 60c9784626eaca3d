"""Ctrl-C, or a cluster that wants its machine back."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any


class TrainingInterrupted(KeyboardInterrupt):
    """The run was saved; its text says how to go on."""


class InterruptHandler:
    """Inside, a first SIGINT or SIGTERM only sets `asked`, so that the step at hand is finished and
    saved; a second one is obeyed at once."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> InterruptHandler:
        if threading.current_thread() is threading.main_thread():  # others may not listen
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listen_as_before()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self._listen_as_before()

    def _listen_as_before(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


@contextmanager
def terminable() -> Iterator[None]:
    """Inside, SIGTERM is heard as Ctrl-C is."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
