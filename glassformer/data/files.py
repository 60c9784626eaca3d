"""Finding and reading data files: paths and patterns to decoded lines."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import BinaryIO, cast

from glassformer.data.record import RecordError
from glassformer.errors import DataError

SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
PIECE = 2**16
"""Maximum number of characters of a piece; a longer text is read in pieces."""


def find_files(patterns: Sequence[str]) -> list[Path]:
    """Returns the files of paths and patterns; matches of a pattern are sorted by name."""
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
            raise DataError(f"The data file {pattern} {what}{hint}.", path=pattern)
        found += matches
    return found


class TextFileReader:
    """Reads files one after another and counts the bytes read."""

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
        """Yields the file's bytes, decompressed if it is a gzip file."""
        if path.suffix.lower() in SPREADSHEETS:
            raise DataError(
                f"{path} is a spreadsheet; save it as CSV (UTF-8) and name that file.", path=path
            )
        try:
            raw = cast(BinaryIO, path.open("rb"))
        except OSError as error:
            raise DataError(
                f"The file {path} cannot be read: {error.strerror}.", path=path
            ) from None
        with raw:
            self._open.append(raw)
            try:
                yield cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if path.suffix == ".gz" else raw
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise DataError(
                    f"The file {path} cannot be unpacked: {error}.", path=path
                ) from None
            finally:
                self._open.remove(raw)
                self._closed += os.fstat(raw.fileno()).st_size  # the file may be gone

    def lines(self, path: Path, encoding: str) -> Iterator[tuple[int, str | RecordError]]:
        """Yields lines, numbered from 1, without their line ending (LF or CRLF)."""
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
        """Yields a text in pieces of at most `size` characters.

        Each item has the line number at which the piece starts, the piece, and whether it is the
        last. Where pieces end does not depend on `chunk`, the number of bytes read at a time. Bytes
        that cannot be decoded yield a RecordError and are then read as U+FFFD.
        """
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
    """Returns where a cut affects tokenization least.

    This is after a single line feed, else after any line feed, else before a space.
    """
    between_lines = [found.end() for found in re.finditer(r"\S\n(?=\S)", text[: size + 1])]
    places = (
        between_lines[-1] if between_lines else 0,
        text.rfind("\n", 0, size) + 1,
        text.rfind(" ", 0, size),
    )
    return next((position for position in places if position > 0), size)


def undecodable(where: str, error: UnicodeDecodeError) -> RecordError:
    """Returns the error of bytes in another encoding, with the one that they may be in."""
    wrong = f"the byte 0x{error.object[error.start]:02x} is no {error.encoding} text"
    likely = likely_encoding(error.object)
    if likely == codecs.lookup(error.encoding).name:
        return RecordError(where, f"{wrong}; the file is damaged here")
    return RecordError(where, f"{wrong}, but may be {likely}", f'data.encoding = "{likely}"')


def likely_encoding(data: bytes) -> str:
    """Returns the encoding that bytes which are not all valid most likely have.

    In Chinese text the bytes with the high bit are pairs, most of which begin with the lead byte
    of a frequent character or a punctuation mark (GB 2312, rows 1 to 3 and 16 to 55).
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    runs = re.findall(rb"[\x80-\xff]+", data)
    leads = b"".join(run[: len(run) // 2 * 2 : 2] for run in runs)
    frequent = sum(0xA1 <= lead <= 0xA3 or 0xB0 <= lead <= 0xD7 for lead in leads)
    high = sum(map(len, runs))
    decoded = re.sub(r"[\x00-\x7f]", "", data.decode("utf-8", errors="replace"))
    invalid = decoded.count("\ufffd")
    if 2 * invalid <= len(decoded) - invalid:
        return "utf-8"
    return "gb18030" if 4 * frequent > high else "cp1252"


def _is_utf8(encoding: str) -> bool:
    return codecs.lookup(encoding).name == "utf-8"
