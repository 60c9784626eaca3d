"""A file of predictions: the columns of the input, and the results beside them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from glassformer.data.readers import form_of
from glassformer.data.record import WHERE_COLUMN
from glassformer.errors import ConfigError, DataError
from glassformer.storage.files import atomic_file

DELIMITERS = {"csv": ",", "tsv": "\t"}
OURS = ("where", "begins", "ends")


class PredictionFile:
    """Writes a row per input, as a table or as JSON lines by the ending of the path.

    A result whose name is a column of the input is written as `predicted_NAME`.
    """

    def __init__(self, path: Path) -> None:
        self.form = form_of(path)
        if self.form not in (*DELIMITERS, "jsonl"):
            raise ConfigError(f"{path} must end in .csv, .tsv or .jsonl, by which it is written.")
        self._columns: list[str] = []
        self._stream: IO[bytes]

    @classmethod
    @contextmanager
    def open(cls, path: Path | None) -> Iterator[PredictionFile | None]:
        """Yields the file, which appears when it is complete; None if no path is given."""
        if path is None:
            yield None
            return
        made = cls(path)
        with atomic_file(path) as made._stream:
            yield made

    def add(self, record: Mapping[str, Any], results: Mapping[str, Any]) -> None:
        """Writes a row."""
        given = {
            "where" if name == WHERE_COLUMN else name: value
            for name, value in record.items()
            if name not in OURS
        }
        named = {f"predicted_{k}" if k in given else k: v for k, v in results.items()}
        row = {**given, **named}
        if self.form == "jsonl":
            self._write(json.dumps(row, ensure_ascii=False) + "\n")
            return
        if not self._columns:
            self._columns = list(row)
            self._write(self._line(self._columns))
        more = [name for name in row if name not in self._columns]
        if more:
            raise DataError(
                f"{record.get('where')} has the column {more[0]!r}, which the rows before do not; "
                "write the results to a .jsonl file."
            )
        self._write(self._line([cell(row.get(name)) for name in self._columns]))

    def _line(self, cells: list[Any]) -> str:
        text = io.StringIO()
        csv.writer(text, delimiter=DELIMITERS[self.form], lineterminator="\n").writerow(cells)
        return text.getvalue()

    def _write(self, text: str) -> None:
        self._stream.write(text.encode("utf-8", "backslashreplace"))


def cell(value: Any) -> Any:
    """Returns a value as a cell of a table; lists and objects are written as JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
