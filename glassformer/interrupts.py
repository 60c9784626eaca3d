"""Signals that end a program: SIGTERM and SIGHUP are treated as Ctrl-C is."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))
Handler = Callable[[int, FrameType | None], Any]


def set_handlers(handler: Handler) -> dict[int, Any]:
    """Handles the signals that end a program, and returns the handlers that there were.

    An ignored signal stays ignored: `nohup` has it so. Signals have handlers in the main thread
    only; in another one nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in handled}


def restore_handlers(before: dict[int, Any]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)


@contextmanager
def terminable() -> Iterator[None]:
    """Raises KeyboardInterrupt at any of the signals inside the context."""
    before = set_handlers(signal.default_int_handler)
    try:
        yield
    finally:
        restore_handlers(before)
