"""Detection of the layout of a data file: its format, encoding, delimiter and header.

The ending decides where it says enough, and the content elsewhere. The result is a `FileLayout`,
whose settings are keys of a recipe's [data] table.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.data.data_config import DataSettings, Format
from glassformer.data.files import TextFileReader, likely_encoding
from glassformer.data.readers import form_of
from glassformer.data.tables import DELIMITERS, LONGEST_FIELD, find_delimiter
from glassformer.errors import DataError

SAMPLE = 2**20  # bytes that are looked at
ROWS = 200  # rows of a table that are looked at
CANDIDATES = ("utf-8", "gb18030", "cp1252", "latin-1")
WESTERN = ("cp1252", "latin-1")
MOST_SPECIAL = 0.25  # of the characters of a Western text are no ASCII, with its accents and quotes
TABLES = ("csv", "tsv")
PACKED = {  # first bytes of files that are no text
    b"PK\x03\x04": "a zip archive or an office document; unpack it, or save it as CSV (UTF-8)",
    b"\xd0\xcf\x11\xe0": "an office document; save it as CSV (UTF-8)",
    b"\x1f\x8b": "packed by gzip; give it the ending .gz",
    b"BZh": "packed by bzip2; unpack it",
    b"\xfd7zXZ": "packed by xz; unpack it",
    b"\x28\xb5\x2f\xfd": "packed by Zstandard; unpack it",
    b"%PDF": "a PDF; save its text as a text file",
}


@dataclass(frozen=True, kw_only=True)
class FileLayout:
    """How a file is written.

    Attributes:
        format: The format.
        encoding: The encoding.
        delimiter: The delimiter of a table, if it is not the format's own.
        quoting: Whether the fields of a TSV are quoted, which they usually are not.
        header: The first row of a table; empty for other formats.
        has_header: Whether this row names the columns.
    """

    format: Format
    encoding: str = "utf-8"
    delimiter: str | None = None
    quoting: bool = False
    header: tuple[str, ...] = ()
    has_header: bool = True

    def settings(self, column_names: Sequence[str] = ()) -> dict[str, Any]:
        """Returns the keys of the [data] table that differ from their defaults."""
        found: dict[str, Any] = {"format": self.format}
        if self.encoding != "utf-8":
            found["encoding"] = self.encoding
        if self.delimiter is not None:
            found["delimiter"] = self.delimiter
        if self.quoting:
            found["quoting"] = True
        if column_names and not self.has_header:
            found["column_names"] = list(column_names)
        return found


def detect(
    path: Path,
    plain: Format = "text",
    names: Collection[str] = (),
    form: Format | None = None,
    encoding: str | None = None,
) -> FileLayout:
    """Returns the layout of a file.

    Args:
        path: The file; it may be compressed by gzip.
        plain: The format of a file whose ending says nothing, such as .txt.
        names: Known column names, in lower case: a row that has one is a header.
        form: The format, if it is known.
        encoding: The encoding, if it is known.
    """
    by_ending = form or form_of(path)
    if by_ending in ("parquet", "tokens"):
        return FileLayout(format=by_ending)
    sample = _sample(path)
    encoding = _encoding(sample, path, encoding)
    text = sample.decode(encoding, "ignore").removeprefix("\ufeff")
    if not text.strip():
        raise DataError(f"{path} is empty; name a file with some rows.", path=path)
    found = form or _format(by_ending, plain, text, names)
    if found not in TABLES:
        return FileLayout(format=found, encoding=encoding)
    if re.match(r"sep=.\r?\n", text):
        raise DataError(
            f"{path} begins with {text[:5]!r}, a line that only Excel reads; remove it.", path=path
        )
    default, quoted = ("," if found == "csv" else "\t"), found == "csv"
    delimiter = _delimiter(text, default, quoted)
    guessed = find_delimiter(text.split("\n", 1)[0], default)  # by the reader
    quoting = not quoted and _is_quoted(text, delimiter)
    rows, _ = _rows(text, delimiter, quoted or quoting)
    return FileLayout(
        format=found,
        encoding=encoding,
        delimiter=None if delimiter == default == guessed else delimiter,
        quoting=quoting,
        header=tuple(rows[0]) if rows else (),
        has_header=_is_header(rows, names),
    )


def detected(
    path: Path, form: Format, names: Collection[str] = (), encoding: str | None = None
) -> DataSettings:
    """Returns how a file of a known format is written, as settings; tables alone vary.

    Args:
        path: The file.
        form: The format.
        names: Known column names, in lower case.
        encoding: The encoding; None finds that of a table.
    """
    if form not in TABLES:
        return DataSettings(format=form, encoding=encoding or "utf-8")
    layout = detect(path, names=names, form=form, encoding=encoding)
    columns = tuple(f"column {number}" for number in range(1, len(layout.header) + 1))
    return DataSettings(
        format=form,
        encoding=layout.encoding,
        delimiter=layout.delimiter,
        quoting=layout.quoting or None,
        column_names=() if layout.has_header else columns,
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


def _encoding(sample: bytes, path: Path, given: str | None) -> str:
    """Returns the given encoding, or the first that the sample is valid in.

    It is UTF-8 where few bytes are not: then the file is damaged. GB 18030 accepts most bytes, so
    it must also yield Chinese characters, of which most are frequent.
    """
    for first, what in PACKED.items():
        if sample.startswith(first):
            raise DataError(f"{path} is {what}.", path=path)
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in sample[:1000]:
        raise DataError(
            f"{path} is not a text in UTF-8 (it may be UTF-16, as Excel's Unicode text is); save "
            "it as UTF-8.",
            path=path,
        )
    if given is not None:
        return DataSettings(encoding=given).encoding  # which exists
    for encoding in CANDIDATES:
        try:
            text = sample.decode(encoding)
        except UnicodeDecodeError as error:
            cut = len(sample) == SAMPLE and error.start > SAMPLE - 4  # a character in two
            if encoding == "utf-8" and (cut or likely_encoding(sample) == encoding):
                return encoding
            continue
        if encoding == "gb18030" and not (
            _is_chinese(text) and likely_encoding(sample) == encoding
        ):
            continue
        return _checked_western(text, encoding, path)
    return "latin-1"


def _checked_western(text: str, encoding: str, path: Path) -> str:
    """Returns the encoding; raises an error if a Western one gives too many special letters."""
    signs = [sign for sign in text if not sign.isspace()]
    if encoding in WESTERN and sum(sign > "\x7f" for sign in signs) > MOST_SPECIAL * len(signs):
        raise DataError(
            f"The encoding of {path} is not clear; name it, as --encoding big5, cp1251 or "
            "shift_jis, or save the file as UTF-8.",
            path=path,
        )
    return encoding


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


def _rows(text: str, delimiter: str, quoted: bool) -> tuple[list[list[str]], bool]:
    """Returns the first rows of a table, and whether all of them are well formed."""
    if not quoted:
        lines = islice((line for line in text.split("\n") if line.strip()), ROWS)
        return [line.rstrip("\r").split(delimiter) for line in lines], True
    rows: list[list[str]] = []
    before = csv.field_size_limit(LONGEST_FIELD)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        rows.extend(row for row in islice(reader, ROWS) if row)
    except csv.Error:  # the reader of the data says where
        return rows, False
    finally:
        csv.field_size_limit(before)
    return rows, True


def _delimiter(text: str, default: str, quoted: bool) -> str:
    """Returns the delimiter by which most rows have the columns of the first, which are several.

    Of two such marks it is the one that no space follows, as it does a comma in a sentence.
    """

    def key(mark: str) -> tuple[float, bool, bool]:
        rows, _ = _rows(text, mark, quoted)
        columns = list(zip(*rows, strict=False))[1:]
        spaced = any(all(cell[:1] == " " for cell in column) for column in columns)
        return _regularity(rows), not spaced, mark == default

    return max((default, *DELIMITERS), key=key)


def _regularity(rows: Sequence[Sequence[str]]) -> float:
    """Returns the share of the rows with as many columns as the first.

    It is 0 if the first row has one column, or if most rows have others.
    """
    if not rows or len(rows[0]) < 2:
        return 0.0
    share = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
    return share if share > 0.5 else 0.0


def _is_quoted(text: str, delimiter: str) -> bool:
    """Whether the fields of a table are quoted as in CSV.

    They are if only so all rows have the same columns, or if a field holds doubled quotes.
    """
    plain, _ = _rows(text, delimiter, quoted=False)
    quoted, valid = _rows(text, delimiter, quoted=True)
    if not valid or _regularity(quoted) < _regularity(plain):
        return False
    doubled = (re.fullmatch(r'".*"".*"', cell) for row in plain for cell in row)
    return _regularity(quoted) > _regularity(plain) or any(doubled)


def _named(text: str, delimiter: str, names: Collection[str]) -> bool:
    return any(cell.strip().lower() in names for cell in text.split("\n", 1)[0].split(delimiter))


def _is_header(rows: Sequence[Sequence[str]], names: Collection[str]) -> bool:
    """Whether the first row of a table names the columns.

    It does if a cell is a known name, stands above numbers, or is the column's number as pandas
    writes it. It does not if a cell is a number, empty or a sentence, or if a cell's value occurs
    again in its column, as a label does. The first cell may be empty, above an index.
    """
    if not rows:
        return True
    first, rest = [cell.strip() for cell in rows[0]], rows[1:]
    if any(cell.lower() in names for cell in first) or first == list(map(str, range(len(first)))):
        return True
    below = [[row[i].strip() for row in rest if i < len(row)] for i in range(len(first))]
    columns = list(zip(first, below, strict=True))
    if any(cell and not _is_number(cell) and _are_numbers(others) for cell, others in columns):
        return True
    return not any(
        cell in others or _is_number(cell) or len(cell.split()) > 5 or cell[-1:] in ("", *".!?")
        for cell, others in (columns if first[0] or len(first) < 2 else columns[1:])
    )


def _are_numbers(words: Sequence[str]) -> bool:
    return bool(words) and all(map(_is_number, words))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
