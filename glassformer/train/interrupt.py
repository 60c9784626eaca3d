"""Ctrl-C during training, and SIGTERM, which clusters send to end a job."""

from __future__ import annotations

from types import FrameType, TracebackType
from typing import Any

from glassformer.interrupts import restore_handlers, set_handlers


class TrainingInterrupted(KeyboardInterrupt):
    """Raised after the run was saved; the message says how to resume."""


class InterruptHandler:
    """Delays interrupts so that the current step is finished and saved.

    Inside the context, a first signal that ends a program only sets `requested`; a second one takes
    effect immediately.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> InterruptHandler:
        self._before = set_handlers(self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        restore_handlers(self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        restore_handlers(self._before)
