"""Cooperative cancellation of long computations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_called: ContextVar[Callable[[], None] | None] = ContextVar("pause", default=None)


def check_cancelled() -> None:
    """Calls the active cancellation callback, if any.

    Long computations call this between their parts, such as between two forward passes or two
    chunks of lens rows.
    """
    call = _called.get()
    if call is not None:
        call()


@contextmanager
def cancellable(call: Callable[[], None]) -> Iterator[None]:
    """Makes every `check_cancelled` inside the context call `call`.

    An exception raised by `call` ends the computation.
    """
    token = _called.set(call)
    try:
        yield
    finally:
        _called.reset(token)
