"""Registry of the request handlers of the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Handler = TypeVar("Handler", bound=Callable[..., object])

ROUTES: dict[str, Callable[..., Any]] = {}


def route(name: str) -> Callable[[Handler], Handler]:
    """Registers a function `(session, request) -> response` as the handler of `POST /api/<name>`.

    Its annotations declare the types of the request and of the response; tools/protocol.py writes
    them to page/src/protocol.generated.ts.

    Args:
        name: The name of the route.

    Returns:
        A decorator that returns the function unchanged.
    """

    def register(handler: Handler) -> Handler:
        if name in ROUTES:
            raise ValueError(f"The route {name!r} has two handlers; rename one of them.")
        ROUTES[name] = handler
        return handler

    return register
