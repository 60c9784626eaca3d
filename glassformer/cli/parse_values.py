"""Parsing of arguments: texts from arguments, files and pipes, and settings as `name=value`."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError


def text_of(word: str | None, file: Path | None) -> str:
    """Returns a text from an argument, a file or a pipe, without its last newline.

    The argument may be the path of a file.
    """
    from glassformer.cli.path_arguments import file_named

    if file is None and word is not None and word != "-":
        file = file_named(word, "text")
        if file is None:
            return word
    try:
        whole = sys.stdin.buffer.read() if file is None else file.read_bytes()
        return whole.decode().removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        name = "Standard input" if file is None else file
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise DataError(f"{name} cannot be read: {why}.", path=file) from None


def knobs_of(words: Sequence[str]) -> dict[str, Any]:
    """Parses `name=value` settings; a value is JSON, or Python, or else a string."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ConfigError(f"An option is set by name=value, not by {word!r}.")
        found[name.strip().replace("-", "_")] = value_of(value.strip())
    return found


def value_of(word: str) -> Any:
    for read in (json.loads, ast.literal_eval):
        try:
            return read(word)
        except (ValueError, SyntaxError):
            continue
    return word
