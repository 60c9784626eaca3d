"""Between two pieces of long work, whoever waits for it may end it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_called: ContextVar[Callable[[], None] | None] = ContextVar("pause", default=None)


def check_cancelled() -> None:
    """Called between two pieces: a pass and the next one, some rows of the lens and the next."""
    call = _called.get()
    if call is not None:
        call()


@contextmanager
def cancellable(call: Callable[[], None]) -> Iterator[None]:
    """`call` is called in every pause of what is computed in here; what it raises ends that."""
    token = _called.set(call)
    try:
        yield
    finally:
        _called.reset(token)
