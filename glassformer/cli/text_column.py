"""Choice of the text column of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from glassformer.cli.printing import print_note
from glassformer.data.record import Record, RecordError
from glassformer.errors import DataError

OTHERS = ("where", "id", "label", "labels", "date")  # columns that never contain the text


class TableRow(dict[str, Any]):
    """A row with its text as `text`; `original` has the columns of the file alone."""

    def __init__(self, original: Record, text: Any) -> None:
        super().__init__({**original, "text": text})
        self.original = original


@dataclass(frozen=True)
class TextColumn:
    """The column with the text.

    Args:
        name: Name of the column. None selects one of `usual`, or the only one that can contain
            text.
        defaults: Names that the command reads by default.
        taken: Columns with another use.
        learned: The column that the model was trained on.
    """

    name: str | None = "text"
    defaults: tuple[str, ...] = ("text",)
    taken: tuple[str | None, ...] = ()
    learned: str | None = None

    def provide(
        self, records: Iterable[Record | RecordError], path: Path
    ) -> Iterator[Record | RecordError]:
        """Yields the records of a table with the text column as `text`.

        The first record determines the column.
        """
        found = self.name
        for record in records:
            if isinstance(record, RecordError):
                yield record
                continue
            found = found or self._find(record, path)
            known = found in (self.name, *self.defaults)
            yield record if known else TableRow(record, record[found])

    def _find(self, record: Record, path: Path) -> str:
        if self.learned in record:
            return str(self.learned)
        for name in self.defaults:
            if name in record:
                return name
        possible = [
            name
            for name, value in record.items()
            if name not in (*OTHERS, *self.taken)
            and re.fullmatch(r"[\w-]+|column \d+", name)  # else it may be a text without header
            and has_words(value)
        ]
        if len(possible) == 1:
            print_note(f"The text is the column {possible[0]} of {path} (--field names another).")
            return possible[0]
        there = ", ".join(name for name in record if name != "where")
        raise DataError(
            f"{path} has no column text, only {there}; name the one that has the text by --field.",
            path=path,
        )


def has_words(value: Any) -> bool:
    """Returns whether a value is a text with letters, and not a date."""
    if not isinstance(value, str) or not any(letter.isalpha() for letter in value):
        return False
    try:
        datetime.fromisoformat(value.strip())
    except ValueError:
        return True
    return False
