"""The files themselves. Paths and patterns come in, decoded lines go out."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import BinaryIO, cast

from glassformer.errors import GlassformerError

PIECE = 2**16
"""A text of more characters is read in pieces of at most so many."""


class RecordError(GlassformerError):
    """What is wrong with a record, and where; the reader goes on behind it. What a recipe could say
    about it stands by itself: whoever reads without a recipe has other advice."""

    def __init__(self, where: str, wrong: str, advice: str = "") -> None:
        super().__init__(where, wrong, advice)
        self.where, self.wrong = where, wrong
        self.advice = f" ({advice})" if advice else ""

    def __str__(self) -> str:
        return f"{self.where}: {self.wrong}{self.advice}."

    def refused(self) -> GlassformerError:
        """Where the reader is not to go on."""
        why = str(self).rstrip(".")
        return GlassformerError(f'{why}; mend it, or leave it out with data.on_error = "skip".')


def find_files(patterns: Sequence[str]) -> list[Path]:
    """Of a pattern, what it matches, in the order of names."""
    found: list[Path] = []
    for pattern in patterns:
        if Path(pattern).is_file():
            found.append(Path(pattern))
            continue
        matches = [Path(path) for path in sorted(glob(pattern, recursive=True))]
        matches = [path for path in matches if path.is_file()]
        if not matches:
            what = "is a folder" if Path(pattern).is_dir() else "does not exist"
            hint = f'; "{pattern}/*" are the files in it' if Path(pattern).is_dir() else ""
            raise GlassformerError(f"The data file {pattern} {what}{hint}.")
        found += matches
    return found


class TextFileReader:
    """Files that are read one after another, and how many bytes of them have been."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths
        self.total = sum(path.stat().st_size for path in paths)
        self._closed = 0
        self._open: list[BinaryIO] = []

    @property
    def done(self) -> int:
        return self._closed + sum(raw.tell() for raw in self._open)

    @contextmanager
    def open(self, path: Path) -> Iterator[BinaryIO]:
        """The file's bytes, unpacked where it is a gzip file."""
        try:
            raw = cast(BinaryIO, path.open("rb"))
        except OSError as error:
            raise GlassformerError(f"The file {path} cannot be read: {error.strerror}.") from None
        with raw:
            self._open.append(raw)
            try:
                yield cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if path.suffix == ".gz" else raw
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise GlassformerError(f"The file {path} cannot be unpacked: {error}.") from None
            finally:
                self._open.remove(raw)
                self._closed += path.stat().st_size

    def lines(self, path: Path, encoding: str) -> Iterator[tuple[int, str | RecordError]]:
        """Numbered from 1, without what ends them: a line feed, maybe after a carriage return."""
        with self.open(path) as stream:
            for number, raw in enumerate(stream, 1):
                if number == 1 and _is_utf8(encoding):
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                try:
                    yield number, raw.decode(encoding).removesuffix("\n").removesuffix("\r")
                except UnicodeDecodeError as error:
                    yield number, undecodable(f"{path}:{number}", error)

    def pieces(
        self, path: Path, encoding: str, size: int = PIECE, chunk: int = PIECE
    ) -> Iterator[tuple[int, str, bool] | RecordError]:
        """A whole text in pieces of at most `size` characters: the line on which a piece starts,
        the piece, whether it is the last. Where pieces end does not depend on the bytes that are
        read at a time. Bytes that are no text are shown as RecordError, then read as U+FFFD."""
        encoding = "utf-8-sig" if _is_utf8(encoding) else encoding
        decoder = codecs.getincrementaldecoder(encoding)()
        loose = codecs.getincrementaldecoder(encoding)(errors="replace")
        line_ends = io.IncrementalNewlineDecoder(None, translate=True)
        line, held = 1, ""
        with self.open(path) as stream:
            while True:
                data = stream.read(chunk)
                state = decoder.getstate()
                try:
                    text = decoder.decode(data, not data)
                except UnicodeDecodeError as error:
                    number = line + held.count("\n") + data[: error.start].count(b"\n")
                    yield undecodable(f"{path}:{number}", error)
                    loose.setstate(state)
                    text = loose.decode(data, not data)
                    decoder.setstate(loose.getstate())
                held += line_ends.decode(text, not data)
                while len(held) > size:
                    cut = place_to_cut(held, size)
                    yield line, held[:cut], False
                    line += held.count("\n", 0, cut)
                    held = held[cut:]
                if not data:
                    break
        if held:
            yield line, held, True


def place_to_cut(text: str, size: int) -> int:
    """Where a tokenizer minds least: after a line feed that stands alone, or after any; else
    before a space."""
    between_lines = [found.end() for found in re.finditer(r"\S\n(?=\S)", text[: size + 1])]
    places = (
        between_lines[-1] if between_lines else 0,
        text.rfind("\n", 0, size) + 1,
        text.rfind(" ", 0, size),
    )
    return next((place for place in places if place > 0), size)


def undecodable(where: str, error: UnicodeDecodeError) -> RecordError:
    byte = error.object[error.start]
    wrong = f"the byte 0x{byte:02x} is no {error.encoding} text"
    return RecordError(where, wrong, "say data.encoding if it is another")


def _is_utf8(encoding: str) -> bool:
    return codecs.lookup(encoding).name == "utf-8"
