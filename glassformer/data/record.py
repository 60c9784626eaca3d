"""A record of a data file, and the error of a malformed one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from glassformer.errors import DataError, GlassformerError

SKIPPED = 'leave it out with data.on_error = "skip" (on the command line, data.on_error=skip)'
WHERE_COLUMN = "column where"
Record = Mapping[str, Any]
"""A line of a data file by column name; `where` locates the line.

A column `where` of a table is named WHERE_COLUMN. A long text is split into several records:
`begins` is False in all but the first (they get no start token), `ends` in all but the last (no end
token). Without these keys a record is a whole text.
"""


class RecordError(DataError):
    """A malformed record and its location; the reader continues after it.

    `advice` about recipe settings is separate, because code that reads without a recipe needs other
    advice.
    """

    def __init__(self, where: str, wrong: str, advice: str = "") -> None:
        path, line = path_and_line(where)
        super().__init__(wrong, path=path, line=line)
        self.args = (where, wrong, advice)  # what unpickling passes to the constructor
        self.where, self.wrong = where, wrong
        self.advice = f" ({advice})" if advice else ""

    @property
    def encoding_advice(self) -> str:
        """The advice on the encoding, if it is that, for code that reads without a recipe."""
        found = re.search(r'data\.encoding = "(.+?)"', self.advice)
        if found is None:
            return ""
        return f'encoding = "{found[1]}", on the command line --encoding {found[1]}'

    def __str__(self) -> str:
        return f"{self.where}: {self.wrong}{self.advice}."

    def refused(self, remedy: str = SKIPPED) -> DataError:
        """Returns the error to raise if malformed records are not skipped."""
        why = str(self).rstrip(".")
        return DataError(f"{why}; correct it, or {remedy}.", path=self.path, line=self.line)


def invalid(record: Record, wrong: str, advice: str = "") -> RecordError:
    """Returns the error of a record that was read, but cannot be used."""
    return RecordError(str(record.get("where", "A record")), wrong, advice)


def refused(error: GlassformerError, record: Record) -> DataError:
    """Returns the error to raise for a record; it names the record if the given one does not."""
    if isinstance(error, RecordError):
        return error.refused()
    where = str(record.get("where", "A record"))
    path, line = path_and_line(where)
    message = str(error) if where in str(error) else f"{where}: {error}"
    return DataError(message, path=path, line=line)


def path_and_line(where: str) -> tuple[str | None, int | None]:
    """Returns the parts of a location such as "a.jsonl:3", or None for both if it is another."""
    path, _, line = where.rpartition(":")
    return (path, int(line)) if path and line.isdecimal() else (None, None)
