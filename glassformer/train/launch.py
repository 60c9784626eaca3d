"""Information that torchrun passes to its processes; does not import torch."""

from __future__ import annotations

import os

from glassformer.errors import GlassformerError


class LostError(GlassformerError):
    """Another process does not respond; raised by each process that notices it."""


def is_main() -> bool:
    """Returns whether this is the process that prints."""
    return os.environ.get("RANK", "0") == "0"
