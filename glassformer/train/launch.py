"""Train room, what torchrun says to the processes it starts; known before torch is."""

from __future__ import annotations

import os

from glassformer.errors import GlassformerError


class LostError(GlassformerError):
    """Another process does not answer: said by whoever notices it."""


def is_main() -> bool:
    """Whether this is the process that prints."""
    return os.environ.get("RANK", "0") == "0"
