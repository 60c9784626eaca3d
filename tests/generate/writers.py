"""One class that writes of every model type."""

from __future__ import annotations

from cases import NAMES, in_transformers, writes
from reference import find_class


def generates(name) -> bool:
    return (
        writes(name)
        and in_transformers(name)
        and hasattr(find_class(name.architecture), "generate")
    )


FIRST = {}
for name in NAMES:
    if generates(name):
        FIRST.setdefault(name.model_type, name)

KINDS = ("gpt2", "llama", "t5", "whisper")
"""Learned positions, rotary positions, an encoder for text, an encoder for speech."""
