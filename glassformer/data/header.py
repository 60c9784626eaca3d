"""Checks of the header of a table against the settings of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from glassformer.data.data_config import DataSettings
from glassformer.errors import DataError

DELIMITERS = {"\t": "\\t", ";": ";", ",": ",", "|": "|"}


def check_header(
    row: Sequence[str], settings: DataSettings, delimiter: str, path: Path, line: int
) -> None:
    """Raises an error if the first row of a table contradicts the settings.

    Args:
        row: The first row, a header unless `settings.column_names` gives the names.
        settings: The [data] table.
        delimiter: The delimiter by which the row was split.
        path: The file.
        line: The row's line.
    """
    wrong = _wrong_header(row, settings, delimiter)
    if wrong:
        raise DataError(f"{path}:{line}: {wrong}", path=path, line=line)
    check_names(settings.columns, settings.column_names or row, path)


def _wrong_header(row: Sequence[str], settings: DataSettings, delimiter: str) -> str | None:
    given = settings.column_names
    if given:
        same = [name.strip().casefold() for name in row] == [name.casefold() for name in given]
        return "this row is the header; leave data.column_names out." if same else None
    if any("\r" in name for name in row):
        return "lines end with a carriage return alone; convert the file to line feeds."
    if len(row) == 1:
        other = next((mark for mark in DELIMITERS if mark != delimiter and mark in row[0]), None)
        if other is not None:
            return (
                f'the header is one column, {row[0]!r}; set data.delimiter = "{DELIMITERS[other]}".'
            )
    twice = [name for number, name in enumerate(row) if name in row[:number]]
    if twice:
        return (
            f"the header names a column twice ({', '.join(row)}); name all columns in "
            "data.column_names if this is no header, or rename one."
        )
    return None


def check_names(columns: Mapping[str, str], names: Sequence[str], path: Path) -> None:
    """Raises an error if the columns setting names a column that the file does not have."""
    for ours, theirs in columns.items():
        if theirs not in names:
            near = get_close_matches(theirs, names, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise DataError(
                f"{path} has no column {theirs!r}, which columns.{ours} names{hint} It has "
                f"{', '.join(names)}.",
                path=path,
            )
