"""Handling of Ctrl-C and of SIGTERM, which clusters send to end a job."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any


class TrainingInterrupted(KeyboardInterrupt):
    """Raised after the run was saved; the message says how to resume."""


class InterruptHandler:
    """Delays interrupts so that the current step is finished and saved.

    Inside the context, a first SIGINT or SIGTERM only sets `requested`; a second one takes effect
    immediately.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> InterruptHandler:
        if threading.current_thread() is threading.main_thread():  # signal handlers work only there
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore_handlers()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self._restore_handlers()

    def _restore_handlers(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


@contextmanager
def terminable() -> Iterator[None]:
    """Treats SIGTERM like Ctrl-C inside the context."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
