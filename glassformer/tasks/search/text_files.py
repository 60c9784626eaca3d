"""Finds and decodes the text files of a folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from glassformer.data.files import likely_encoding
from glassformer.errors import DataError

NAME_MAX = 255  # bytes of a file name


def texts_folder(texts: str | Path) -> Path:
    folder = Path(texts)
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder} with texts.", path=folder)
    return folder


def found_files(folder: Path, patterns: Sequence[str]) -> list[tuple[str, Path]]:
    """Returns names relative to the folder and paths, sorted; hidden files are left out."""
    found = {
        path.relative_to(folder).as_posix(): path
        for pattern in patterns
        for path in _matching(folder, pattern)
        if path.is_file() and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    }
    if not found:
        raise DataError(f"{folder} has no files that match {', '.join(patterns)}.", path=folder)
    return sorted(found.items())


def _matching(folder: Path, pattern: str) -> list[Path]:
    parts = Path(pattern).parts
    with suppress(ValueError, NotImplementedError):  # an invalid pattern
        if ".." not in parts and all(len(os.fsencode(part)) <= NAME_MAX for part in parts):
            return list(folder.rglob(pattern))
    raise DataError(f"{pattern!r} is not a pattern of files in {folder}; give one as '*.txt'.")


def decoded(content: bytes, path: Path) -> str:
    """Decodes UTF-8 without a byte order mark; line ends are kept.

    Offsets of passages count the characters of this text.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        likely = likely_encoding(content)
        raise DataError(
            f"{path}:{line} is not UTF-8, but may be {likely}; convert the file "
            f"(iconv -f {likely} -t utf-8).",
            path=path,
            line=line,
        ) from None


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
