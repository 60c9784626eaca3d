"""Standard output that reports failures: a full disk or a closed pipe is an error in one sentence.

Python flushes its buffers at exit, and fails then with a traceback or, if output is discarded,
silently.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any, TextIO, cast

from glassformer.errors import GlassformerError


class OutputError(GlassformerError):
    """Raised when standard output cannot be written."""


class CheckedOutput:
    """Text stream that raises OutputError when a write fails, and at every later write."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._error: OutputError | None = None

    def write(self, text: str) -> int:
        with self._checked():
            return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        with self._checked():
            self._stream.writelines(lines)

    def flush(self) -> None:
        with self._checked():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextmanager
    def _checked(self) -> Iterator[None]:
        if self._error is not None:
            raise self._error
        try:
            yield
        except BrokenPipeError:
            self._error = OutputError("Standard output was closed before everything was written.")
            raise self._error from None
        except OSError as error:
            self._error = OutputError(
                f"Standard output cannot be written: {error.strerror}; the results are incomplete."
            )
            raise self._error from None


@contextmanager
def checked_output() -> Iterator[None]:
    """Replaces sys.stdout by a CheckedOutput.

    Output that cannot be written is discarded at the end, so that Python does not try again.
    """
    stream = sys.stdout
    if stream is None:  # closed (`>&-`): let every write fail
        stream = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")  # of file names that are not UTF-8
    sys.stdout = cast(TextIO, CheckedOutput(stream))
    try:
        yield
    finally:
        sys.stdout = stream
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
