"""Readers of tables: CSV, TSV and Parquet; each row is a record."""

from __future__ import annotations

import csv
import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from glassformer.data.data_config import DataSettings
from glassformer.data.files import TextFileReader
from glassformer.data.header import check_header, check_names
from glassformer.data.parquet_pages import page_sizes
from glassformer.data.record import WHERE_COLUMN, Record, RecordError
from glassformer.errors import DataError, UnsupportedError
from glassformer.storage.parsing import parsing

Line = tuple[int, str | RecordError]  # its number and content
DELIMITERS = (",", ";", "\t", "|")
RETURNS = "lines end with a carriage return alone"
NAME_COLUMNS = "name the columns in data.column_names"
QUOTED = re.compile(r'"[^"]*"')
LARGEST_PAGE = 2**25  # bytes, of a small Parquet file; writers make pages of about one megabyte
LONGEST_FIELD = 2**26
"""Maximum number of characters of a field; an unclosed quote would swallow the rest of the file."""


def read_csv(
    file_reader: TextFileReader, path: Path, settings: DataSettings
) -> Iterator[Record | RecordError]:
    """Yields the rows of a CSV file."""
    return _table(file_reader, path, settings, ",", quotes=True)


def read_tsv(
    file_reader: TextFileReader, path: Path, settings: DataSettings
) -> Iterator[Record | RecordError]:
    """Yields the rows of a TSV file."""
    return _table(file_reader, path, settings, "\t", quotes=False)


def _table(
    file_reader: TextFileReader, path: Path, settings: DataSettings, delimiter: str, quotes: bool
) -> Iterator[Record | RecordError]:
    lines = file_reader.lines(path, settings.encoding)
    first = next(lines, None)
    if first is None:
        return
    if settings.delimiter is not None or isinstance(first[1], RecordError):
        delimiter = settings.delimiter or delimiter
    else:
        delimiter = find_delimiter(first[1], delimiter)
    quotes = quotes if settings.quoting is None else settings.quoting
    rows = _quoted if quotes else _plain
    names: Sequence[str] = settings.column_names
    begun = False
    for number, row in rows(chain([first], lines), path, delimiter):
        where, is_first, begun = f"{path}:{number}", not begun, True
        if isinstance(row, RecordError):
            if is_first and not names:
                raise row if row.wrong == RETURNS else row.refused(NAME_COLUMNS)
            yield row
            continue
        if is_first:
            check_header(row, settings, delimiter, path, number)
        if not names:
            names = [WHERE_COLUMN if name == "where" else name for name in row]
        elif len(row) > 1 and not any(cell.strip() for cell in row):
            continue  # a blank row, as spreadsheets write it
        elif len(row) != len(names):
            yield RecordError(
                where, f"this row has {len(row)} columns, not {len(names)} ({', '.join(names)})"
            )
        else:
            yield {**dict(zip(names, row, strict=True)), "where": where}


def find_delimiter(first: str, default: str) -> str:
    """Returns the delimiter of a table by its first line.

    It is the default if the line contains it or none of the others, and the most frequent of the
    others elsewhere.
    """
    bare = QUOTED.sub("", first)
    counts = {one: bare.count(one) for one in DELIMITERS}
    found = max(DELIMITERS, key=lambda one: counts[one])
    return default if counts[default] or not counts[found] else found


def _plain(
    source: Iterator[Line], path: Path, delimiter: str
) -> Iterator[tuple[int, list[str] | RecordError]]:
    for number, line in source:
        if isinstance(line, RecordError):
            yield number, line
        elif line:
            yield number, line.split(delimiter)


def _quoted(
    source: Iterator[Line], path: Path, delimiter: str
) -> Iterator[tuple[int, list[str] | RecordError]]:
    """Yields rows of one or more lines, because a quoted field may contain line feeds.

    If a row is malformed, for example because a quote is never closed, only its first line is lost:
    the following lines are read again as rows of their own.
    """
    again = deque[Line]()
    held: list[Line] = []  # lines of the current row

    def lines() -> Iterator[str]:
        while (found := again.popleft() if again else next(source, None)) is not None:
            held.append(found)
            yield "\n" if isinstance(found[1], RecordError) else found[1] + "\n"

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    while (row := _row(reader)) is not None:
        number = held[0][0]
        broken = [line for _, line in held if isinstance(line, RecordError)]
        if isinstance(row, csv.Error):
            wrong, advice = f"this is no row ({row})", "data.quoting = false if quotes are text"
            if "\r" in str(held[0][1]):
                wrong, advice = RETURNS, "convert the file to line feeds"
            yield number, RecordError(f"{path}:{number}", wrong, advice)
            again.extendleft(held[:0:-1])
            reader = csv.reader(lines(), delimiter=delimiter, strict=True)
        elif broken:
            yield number, broken[0]
        elif row:
            yield number, row
        held.clear()


def _row(reader: Iterator[list[str]]) -> list[str] | csv.Error | None:
    before = csv.field_size_limit(LONGEST_FIELD)  # global to the process; restored at once
    try:
        return next(reader, None)
    except csv.Error as error:
        return error
    finally:
        csv.field_size_limit(before)


def read_parquet(
    file_reader: TextFileReader, path: Path, settings: DataSettings
) -> Iterator[Record | RecordError]:
    """Yields the rows of a Parquet file, read in batches of a thousand."""
    parquet = _import_parquet(path)
    with file_reader.open(path) as stream:
        number = 0
        with parsing(path, "a whole Parquet file", DataError):
            table = parquet.ParquetFile(stream)
            _check_pages(stream, table.metadata)
            names, batches = table.schema_arrow.names, table.iter_batches(batch_size=1000)
        check_names(settings.columns, names, path)
        while True:
            with parsing(path, "a whole Parquet file", DataError):
                batch = next(batches, None)
                rows = [] if batch is None else batch.to_pylist()
            if batch is None:
                return
            for row in rows:
                number += 1
                yield {**row, "where": f"{path}: row {number}"}


def _check_pages(stream: BinaryIO, metadata: Any) -> None:
    """Raises an error for a page that needs much more memory than the file has bytes."""
    most = max(LARGEST_PAGE, 10 * stream.seek(0, os.SEEK_END))
    for size in page_sizes(stream, metadata):
        if size.uncompressed > most:
            raise ValueError(f"one of its pages has {size.uncompressed:,} bytes, unpacked")


def _import_parquet(path: Path) -> Any:
    try:
        return import_module("pyarrow.parquet")
    except ImportError:
        raise UnsupportedError(
            f"Reading {path} needs pyarrow: pip install 'glassformer[parquet]', or write it as "
            "JSON lines."
        ) from None
