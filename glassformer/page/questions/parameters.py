"""Page room, questions about parameters: the table, and how the numbers of one are distributed."""

from __future__ import annotations

from typing import Any

from glassformer.page.asked import Asked
from glassformer.page.session import Session


def parameters(session: Session, asked: Asked) -> dict[str, Any]:
    return {}


def histogram(session: Session, asked: Asked) -> dict[str, Any]:
    return {}
