"""Text and binary formats of the word2vec program, as gensim writes them.

Text: "words size", then a line for each word with the word and its numbers. Binary: the same first
line, then the word, a space and float32 numbers, with (word2vec) or without (gensim) a newline.
GloVe's text format has no first line. They are read here, so that gensim is not needed for it.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from pathlib import Path
from typing import IO, cast

import numpy as np

from glassformer.errors import GlassformerError, LoadError
from glassformer.storage.files import atomic_file
from glassformer.word_vectors.space import Vectors

HEADER = re.compile(rb"(\d{1,18}) (\d{1,9})\s*\n")
MOST_PACKED = 1032  # bytes that a byte of a gzip file becomes at most
PROBE = 1 << 20  # bytes inspected to distinguish text from binary


def write_vectors(path: str | Path, vectors: Vectors, *, binary: bool | None = None) -> None:
    """Writes vectors to a file in the text or the binary format of word2vec.

    Whitespace within a word becomes _, since the formats do not allow it.

    Args:
        path: The file to write.
        vectors: The vectors.
        binary: Whether to write the binary format; None: if the name ends in .bin.
    """
    path = Path(path)
    binary = path.suffix == ".bin" if binary is None else binary
    check_target(path)
    with atomic_file(path) as file:
        file.write(f"{len(vectors)} {vectors.size}\n".encode())
        for word, row in zip(vectors.words, vectors.table, strict=True):
            name = re.sub(r"\s", "_", word)
            if binary:
                file.write(name.encode() + b" " + row.astype("<f4").tobytes())
            else:
                file.write(f"{name} {' '.join(map(str, row))}\n".encode())


def check_target(path: Path) -> None:
    """Raises an error if the file cannot be written, before hours of training rather than after.

    Args:
        path: The file that will be written.
    """
    if path.is_dir():
        raise LoadError(f"{path} is a folder; name a file.")
    if path.exists() and not path.is_file():
        raise LoadError(f"{path} is not a regular file, so it is not replaced; name another file.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise LoadError(f"{path} cannot be written; name a file in a folder that you can write to.")


def read_vectors(path: str | Path) -> Vectors:
    """Reads a text or binary file, with or without a first line, also compressed (.gz).

    Args:
        path: The file.

    Returns:
        The vectors.
    """
    path = Path(path)
    try:
        with cast(IO[bytes], (gzip.open if path.suffix == ".gz" else open)(path, "rb")) as file:
            start = file.read(PROBE)
            header = HEADER.match(start)
            file.seek(0 if header is None else header.end())
            if header is None:
                return text_vectors(path, file, None)
            count, size = int(header[1]), int(header[2])
            if is_text(start[header.end() :], size):
                return text_vectors(path, file, (count, size))
            return binary_vectors(path, file, count, size)
    except GlassformerError:  # a LoadError is an OSError
        raise
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise LoadError(f"{path} cannot be read: {reason}.") from None


def is_text(start: bytes, size: int) -> bool:
    """Returns whether a word and numbers in text form come first; an empty file may be either."""
    line = start.partition(b"\n")[0].rstrip()
    try:
        return len([float(part) for part in line.rsplit(b" ", size)[1:]]) == size or not line
    except ValueError:
        return False


def text_vectors(path: Path, file: IO[bytes], sizes: tuple[int, int] | None) -> Vectors:
    first = 1 if sizes is None else 2
    size = None if sizes is None else sizes[1]
    words, rows = [], []
    for number, line in enumerate(file, first):
        line = line.rstrip()
        if size is None:
            size = line.count(b" ")
        # some of GloVe's words contain spaces, so the numbers are split from the end
        word, *parts = line.rsplit(b" ", size)
        try:
            rows.append(np.array(parts, np.float32))
            words.append(word.decode("utf-8"))
        except ValueError:  # includes UnicodeDecodeError
            parts = []
        if not size or len(parts) != size:
            raise LoadError(f"{path}:{number} is not a word and {size or 'some'} numbers.")
    if not rows or (sizes is not None and len(rows) != sizes[0]):
        wanted = "some" if sizes is None else f"{sizes[0]:,}"
        raise LoadError(f"{path} has {len(rows):,} vectors instead of {wanted}.")
    return Vectors(words, np.stack(rows))


def binary_vectors(path: Path, file: IO[bytes], count: int, size: int) -> Vectors:
    most = path.stat().st_size * (MOST_PACKED if path.suffix == ".gz" else 1)
    if count * 4 * size > most:
        raise LoadError(f"{path} is too short for {count:,} vectors of {size:,} numbers.")
    table = np.empty((count, size), np.float32)
    words = []
    data, at = b"", 0
    for place in range(count):
        while (space := data.find(b" ", at)) < 0 or len(data) < space + 1 + 4 * size:
            more = file.read(PROBE + 4 * size)
            if not more:
                raise LoadError(f"{path} ends after {place:,} of {count:,} vectors.")
            data, at = data[at:] + more, 0
        try:
            words.append(data[at:space].lstrip(b"\n").decode("utf-8"))
        except UnicodeDecodeError:
            raise LoadError(
                f"{path}: word {place + 1:,} is not UTF-8; is it a word2vec file?"
            ) from None
        at = space + 1 + 4 * size
        table[place] = np.frombuffer(data, "<f4", size, space + 1)
    return Vectors(words, table)
