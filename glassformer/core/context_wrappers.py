"""Wrappers of stacks that hold in one context only: a thread, or an asynchronous task."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn


class ContextWrapper:
    """A wrapper of a stack, as long as it is active and in the contexts that contain it.

    Attributes:
        stack: The stack.
        wrap: Returns the wrapper around the given one, which may be None.
        active: Whether the `with` block has not ended.
    """

    def __init__(self, stack: nn.Module, wrap: Callable[[Any], Any]) -> None:
        self.stack, self.wrap, self.active = stack, wrap, True


_here: ContextVar[tuple[ContextWrapper, ...]] = ContextVar("context_wrappers", default=())
_lock = threading.Lock()
_count = 0
in_use = False  # whether any context contains a wrapper; a compiled graph is guarded by it


@contextmanager
def added_wrappers(wrappers: Sequence[ContextWrapper]) -> Iterator[None]:
    """Adds wrappers to the current context, outside of those that it contains.

    Blocks may end in any order, and in another context than that in which they began.
    """
    _use(len(wrappers))
    _here.set((*_here.get(), *wrappers))
    try:
        yield
    finally:
        for wrapper in wrappers:
            wrapper.active = False
        _here.set(tuple(wrapper for wrapper in _here.get() if wrapper.active))
        _use(-len(wrappers))


@contextmanager
def without_wrappers(stacks: Sequence[nn.Module]) -> Iterator[None]:
    """Leaves the wrappers of some stacks out of the current context within the block."""
    before = _here.get()
    _here.set(tuple(one for one in before if not any(one.stack is stack for stack in stacks)))
    try:
        yield
    finally:
        later = (one for one in _here.get() if one not in before)
        _here.set((*(one for one in before if one.active), *later))


# the compiler cannot trace context variables
@torch.compiler.disable  # type: ignore[untyped-decorator]
def wrapped(stack: nn.Module, wrapper: Any) -> Any:
    """Returns the wrapper of a stack with those of the current context around it."""
    for one in _here.get():
        if one.stack is stack and one.active:
            wrapper = one.wrap(wrapper)
    return wrapper


def _use(change: int) -> None:
    global _count, in_use
    with _lock:
        _count += change
        in_use = _count > 0
