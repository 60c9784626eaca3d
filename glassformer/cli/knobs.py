"""Knobs on the command line: `name=value` for all of them, and what they turn."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from typing import Any

from glassformer.errors import GlassformerError


def knobs_of(words: Sequence[str]) -> dict[str, Any]:
    """Of `name=value` each; the value is JSON, or Python, or else a text."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise GlassformerError(f"A knob is set by name=value, not by {word!r}.")
        found[name.strip().replace("-", "_")] = value_of(value.strip())
    return found


def value_of(word: str) -> Any:
    for read in (json.loads, ast.literal_eval):
        try:
            return read(word)
        except (ValueError, SyntaxError):
            continue
    return word
