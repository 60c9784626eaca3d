"""Exceptions that the package raises. The message of each is one sentence with the remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

LONGEST_MESSAGE, LONGEST_VALUE = 1000, 300  # characters


class GlassformerError(Exception):
    """Base class of all errors that the package raises for what a caller can correct.

    The message is one line: values and names from files, which it quotes, are shortened, and
    characters that do not print are escaped.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(str(message)))


def one_line(message: str) -> str:
    """Returns a message without line ends and control characters, and of limited length."""
    line = re.sub(r"\s*[\r\n]+\s*", " ", message.strip())
    words = re.sub(rf"\S{{{LONGEST_VALUE},}}", lambda word: shortened(word[0], LONGEST_VALUE), line)
    whole = shortened(words, LONGEST_MESSAGE)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in whole)


def shortened(text: str, most: int) -> str:
    """Returns the text, or its start and its end if it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 3 :]}"


class ConfigError(GlassformerError, ValueError):
    """A config.json, a recipe, a spec or an option has a wrong value."""


class LoadError(GlassformerError, OSError):
    """A checkpoint, a tokenizer or another file of a model cannot be read or written.

    Attributes:
        missing: Names of tensors that the model needs and the files lack.
        unexpected: Names of tensors in the files that the model does not use.
        mismatched: Names of tensors whose shape is not the model's.
    """

    def __init__(
        self,
        message: str,
        *,
        missing: Sequence[str] = (),
        unexpected: Sequence[str] = (),
        mismatched: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.missing = tuple(missing)
        self.unexpected = tuple(unexpected)
        self.mismatched = tuple(mismatched)


class InputError(GlassformerError, ValueError):
    """A text, prompt, tensor or other input of a call is not usable."""


class DataError(GlassformerError, ValueError):
    """A data file or one of its records is wrong.

    Attributes:
        path: The file, if the error concerns one.
        line: The line of the file, counted from 1, if the error concerns one.
    """

    def __init__(
        self, message: str, *, path: str | Path | None = None, line: int | None = None
    ) -> None:
        super().__init__(message)
        self.path = None if path is None else Path(path)
        self.line = line


class UnsupportedError(GlassformerError, NotImplementedError):
    """A valid model or option asks for a computation that the package does not have.

    Attributes:
        field: The config key or option that asks for it, if there is one.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class UnknownTextWarning(UserWarning):
    """A large part of a text is unknown to the model's vocabulary."""


class DeviceError(GlassformerError, RuntimeError):
    """A device is missing or has not enough memory."""


class LostProcessError(DeviceError):
    """A process of a distributed run waits for another one, which has ended or hangs."""
