"""Cooperative cancellation of long computations, and reports of their progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

ProgressCallback = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Callbacks:
    """The callbacks of a cancellable computation."""

    check: Callable[[], None]
    progress: ProgressCallback | None


_called: ContextVar[Callbacks | None] = ContextVar("cancellation", default=None)


def check_cancelled() -> None:
    """Calls the active cancellation callback, if any.

    Long computations call this between their parts, such as between two forward passes or two
    chunks of lens rows.
    """
    call = _called.get()
    if call is not None:
        call.check()


def report_progress(done: int, total: int | None) -> None:
    """Reports how many parts of a long computation are done, and checks for cancellation.

    The callback may run another computation on the same model, so no edit may be active on the
    model at this point.

    Args:
        done: The number of parts that are done.
        total: The number of all parts; None if it is not known.
    """
    check_cancelled()
    call = _called.get()
    if call is not None and call.progress is not None:
        call.progress(done, total)


@contextmanager
def cancellable(
    check: Callable[[], None], progress: ProgressCallback | None = None
) -> Iterator[None]:
    """Makes every `check_cancelled` inside the context call `check`.

    Args:
        check: An exception that it raises ends the computation.
        progress: Called by every `report_progress`, after `check`.
    """
    token = _called.set(Callbacks(check, progress))
    try:
        yield
    finally:
        _called.reset(token)
