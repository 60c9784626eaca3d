"""Detection of the layout of a data file: its format, encoding, delimiter and header.

The ending decides where it says enough, and the content elsewhere. The result is a `FileLayout`,
whose settings are keys of a recipe's [data] table.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.data.data_config import Format
from glassformer.data.files import TextFileReader
from glassformer.data.readers import form_of
from glassformer.data.tables import LONGEST_FIELD, find_delimiter
from glassformer.errors import DataError

SAMPLE = 2**17  # bytes that are looked at
ROWS = 200  # rows of a table that are looked at
CANDIDATES = ("utf-8", "gb18030", "cp1252", "latin-1")
TABLES = ("csv", "tsv")


@dataclass(frozen=True, kw_only=True)
class FileLayout:
    """How a file is written.

    Attributes:
        format: The format.
        encoding: The encoding.
        delimiter: The delimiter of a table, if it is not the format's own.
        header: The first row of a table; empty for other formats.
        has_header: Whether this row names the columns.
    """

    format: Format
    encoding: str = "utf-8"
    delimiter: str | None = None
    header: tuple[str, ...] = ()
    has_header: bool = True

    def settings(self, column_names: Sequence[str] = ()) -> dict[str, Any]:
        """Returns the keys of the [data] table that differ from their defaults."""
        found: dict[str, Any] = {"format": self.format}
        if self.encoding != "utf-8":
            found["encoding"] = self.encoding
        if self.delimiter is not None:
            found["delimiter"] = self.delimiter
        if column_names and not self.has_header:
            found["column_names"] = list(column_names)
        return found


def detect(
    path: Path,
    plain: Format = "text",
    names: Collection[str] = (),
    form: Format | None = None,
) -> FileLayout:
    """Returns the layout of a file.

    Args:
        path: The file; it may be compressed by gzip.
        plain: The format of a file whose ending says nothing, such as .txt.
        names: Known column names, in lower case: a row that has one is a header.
        form: The format, if it is known.
    """
    by_ending = form or form_of(path)
    if by_ending in ("parquet", "tokens"):
        return FileLayout(format=by_ending)
    sample = _sample(path)
    encoding = _encoding(sample, path)
    text = sample.decode(encoding, "ignore").removeprefix("\ufeff")
    if not text.strip():
        raise DataError(f"{path} is empty; name a file with some rows.", path=path)
    found = form or _format(by_ending, plain, text, names)
    if found not in TABLES:
        return FileLayout(format=found, encoding=encoding)
    default = "," if found == "csv" else "\t"
    delimiter = find_delimiter(text.split("\n", 1)[0], default)
    rows = list(_rows(text, delimiter, quoted=found == "csv"))
    return FileLayout(
        format=found,
        encoding=encoding,
        delimiter=None if delimiter == default else delimiter,
        header=tuple(rows[0]) if rows else (),
        has_header=_is_header(rows, names),
    )


def _format(by_ending: Format, plain: Format, text: str, names: Collection[str]) -> Format:
    """Returns the format by the ending, or by the content where that is another."""
    if by_ending == "jsonl" or (by_ending == "text" and text.lstrip()[:1] in ("{", "[")):
        return _json_format(text)
    if by_ending == "text" and plain != "parallel":
        return plain
    if by_ending in ("text", "tsv") and plain == "parallel":  # pairs of texts, or a table
        return "tsv" if _named(text, "\t", names) else "parallel"
    if by_ending in TABLES and plain == "conll" and re.search(r"\n\s*\n", text):
        return "conll"
    return by_ending


def _sample(path: Path) -> bytes:
    with TextFileReader([path]).open(path) as stream:
        sample = stream.read(SAMPLE)
    return sample if len(sample) < SAMPLE else sample[: sample.rfind(b"\n") + 1] or sample


def _encoding(sample: bytes, path: Path) -> str:
    """Returns the first encoding that the sample is valid in.

    GB 18030 accepts most bytes, so it must also yield Chinese characters.
    """
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in sample[:1000]:
        raise DataError(
            f"{path} is not a text in UTF-8 (it may be UTF-16, as Excel's Unicode text is); save "
            "it as UTF-8.",
            path=path,
        )
    for encoding in CANDIDATES:
        try:
            text = sample.decode(encoding)
        except UnicodeDecodeError as error:
            if encoding == "utf-8" and error.start > len(sample) - 4:  # a character cut in two
                return encoding
            continue
        if encoding != "gb18030" or _is_chinese(text):
            return encoding
    return "latin-1"


def _is_chinese(text: str) -> bool:
    other = [letter for letter in text if ord(letter) > 127]
    return sum("\u3000" <= letter <= "\uffef" for letter in other) > 0.9 * len(other) > 0


def _json_format(text: str) -> Format:
    """SQuAD's file is one object with the key `data`; JSON lines are one object per line."""
    first = text.lstrip().split("\n", 1)[0]
    try:
        json.loads(first)
        whole = '"paragraphs"' in first and first.startswith("{")
    except (ValueError, RecursionError):
        whole = text.lstrip().startswith("{") and ('"data"' in text or '"paragraphs"' in text)
    return "squad" if whole else "jsonl"


def _rows(text: str, delimiter: str, quoted: bool) -> Iterator[list[str]]:
    lines = text.splitlines(keepends=True)
    if not quoted:
        yield from (line.rstrip("\r\n").split(delimiter) for line in lines[:ROWS] if line.strip())
        return
    before = csv.field_size_limit(LONGEST_FIELD)
    try:
        yield from (row for row in islice(csv.reader(lines, delimiter=delimiter), ROWS) if row)
    except csv.Error:  # the reader of the data says where
        return
    finally:
        csv.field_size_limit(before)


def _named(text: str, delimiter: str, names: Collection[str]) -> bool:
    return any(cell.strip().lower() in names for cell in text.split("\n", 1)[0].split(delimiter))


def _is_header(rows: Sequence[Sequence[str]], names: Collection[str]) -> bool:
    """Whether the first row of a table names the columns.

    It does if a cell is a known name. It does not if a cell is a number, empty or a sentence, or if
    a cell's value occurs again in its column, as a label does.
    """
    if not rows:
        return True
    first, rest = rows[0], rows[1:]
    if any(cell.strip().lower() in names for cell in first):
        return True
    for column, cell in enumerate(first):
        word = cell.strip()
        if not word or _is_number(word) or len(word.split()) > 5 or word[-1] in ".!?":
            return False
        if any(column < len(row) and row[column].strip() == word for row in rest):
            return False
    return True


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
