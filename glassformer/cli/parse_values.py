"""Parsing of arguments: texts from arguments, files and pipes, and settings as `name=value`."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError


def text_of(word: str | None, file: Path | None, encoding: str | None = None) -> str:
    """Returns a text from an argument, a file or a pipe, without its last newline.

    The argument may be the path of a file. Without an encoding, files are read as UTF-8.
    """
    from glassformer.cli.path_arguments import file_named

    if file is None and word is not None and word != "-":
        file = file_named(word, "text")
        if file is None:
            return word
    name = "Standard input" if file is None else file
    try:
        whole = sys.stdin.buffer.read() if file is None else file.read_bytes()
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror}.", path=file) from None
    return decoded(whole, name, encoding).removesuffix("\n")


def decoded(whole: bytes, name: str | Path, encoding: str | None = None) -> str:
    """Decodes a file; the error of bytes in another encoding names the likely one."""
    from glassformer.data.data_config import DataSettings
    from glassformer.data.files import likely_encoding

    encoding = DataSettings(encoding=encoding or "utf-8").encoding
    try:
        return whole.decode(encoding)
    except UnicodeDecodeError:
        likely = likely_encoding(whole)
        remedy = f"but may be {likely} (--encoding {likely})"
        if likely == encoding.lower():
            remedy = "and may be damaged"
        shown = "UTF-8" if encoding == "utf-8" else encoding
        raise DataError(f"{name} cannot be read: it is not {shown}, {remedy}.") from None


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
