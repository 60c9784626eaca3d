"""Limits on what a chat template computes: executed lines, and the size of each value.

Jinja's sandbox denies access to Python's internals, and limits `range` alone. A template that comes
with a checkpoint could otherwise run for hours or fill the memory.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from types import FrameType
from typing import TYPE_CHECKING, Any

from glassformer.errors import InputError

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_characters: ContextVar[list[int]] = ContextVar("characters")
"""How many characters the template that is running may still make."""
MOST_CHARACTERS = 10_000_000
MOST_LINES = 200_000
"""Executed lines of a template; published ones execute some hundreds per message."""
LARGEST = 1_000_000
"""Characters of a text, elements of a list, and the largest whole number."""


def too_much() -> InputError:
    return InputError(
        "The chat template computes more than any conversation needs, and was stopped; pass "
        "another chat_template."
    )


@contextmanager
def limited_lines() -> Iterator[None]:
    """Raises an error after too many lines of a template, which runs in this thread."""
    left, before = MOST_LINES, sys.gettrace()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != "<template>":
            return None
        left -= 1
        if left < 0:
            raise too_much()
        return trace

    token = _characters.set([MOST_CHARACTERS])
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
        _characters.reset(token)


def checked(value: Any) -> Any:
    """Returns a value unless it is too large."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST**2:
        raise too_much()
    if isinstance(value, str | bytes | list | tuple) and len(value) > LARGEST:
        raise too_much()
    left = _characters.get(None)
    if isinstance(value, str | bytes) and left is not None:
        left[0] -= len(value)
        if left[0] < 0:
            raise too_much()
    return value


def limited(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that refuses huge numbers as arguments, and huge results."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check_numbers(*args, *kwargs.values())
        return checked(function(*args, **kwargs))

    return call


def check_numbers(*args: Any) -> None:
    if any(isinstance(arg, int) and abs(arg) > LARGEST for arg in args):
        raise too_much()


def check_operands(operator: str, left: Any, right: Any) -> None:
    """Raises an error before `*`, `**` or `%` computes something huge."""
    both = [arg for arg in (left, right) if isinstance(arg, int)]
    sizes = [len(arg) for arg in (left, right) if isinstance(arg, str | list | tuple)]
    if operator == "**" and any(abs(arg) > 1000 for arg in both):
        raise too_much()
    if operator == "*" and both and sizes and both[0] * sizes[0] > LARGEST:
        raise too_much()
    if operator == "%" and isinstance(left, str):
        check_format(left)


def check_format(text: str) -> None:
    """Raises an error for a width such as that of '%99999999d' or '{:>99999999}'."""
    if re.search(r"\d{7}", text):
        raise too_much()


def limit(environment: Environment) -> None:
    """Limits the filters of an environment."""
    for name, function in environment.filters.items():
        if not getattr(function, "jinja_pass_arg", None):
            environment.filters[name] = limited(function)
    environment.globals.pop("lipsum", None)


def limit_joins(template: Template) -> None:
    """Limits the operator `~` of a compiled template."""
    names = template.root_render_func.__globals__
    for name in ("str_join", "markup_join"):
        names[name] = limited(names[name])
