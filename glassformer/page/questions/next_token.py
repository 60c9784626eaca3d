"""Page room, questions about the next token: candidates, and a text with one more."""

from __future__ import annotations

from typing import Any

from glassformer.page.asked import Asked
from glassformer.page.session import Session


def next_tokens(session: Session, asked: Asked) -> dict[str, Any]:
    return {}


def continued(session: Session, asked: Asked) -> dict[str, Any]:
    return {}
