"""Which column of a table has the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from glassformer.cli.printing import say
from glassformer.errors import GlassformerError
from glassformer.train.data.files import RecordError
from glassformer.train.objectives.objective import Record

OTHERS = ("where", "id", "label", "labels", "date")  # columns that have no text to read


@dataclass(frozen=True)
class TextColumn:
    """The one of this name. Without a name: one of those that the verb reads by itself, or the only
    one that can have the text. `taken` are columns that have something else."""

    name: str | None = "text"
    usual: tuple[str, ...] = ("text",)
    taken: tuple[str | None, ...] = ()

    def provide(
        self, records: Iterable[Record | RecordError], path: Path
    ) -> Iterator[Record | RecordError]:
        """The records of a table, whose first one decides. What was found is there as `text`."""
        found = self.name
        for record in records:
            if isinstance(record, RecordError):
                yield record
                continue
            found = found or self._find(record, path)
            known = found in (self.name, *self.usual)
            yield record if known else {**record, "text": record[found]}

    def _find(self, record: Record, path: Path) -> str:
        for name in self.usual:
            if name in record:
                return name
        possible = [
            name
            for name, value in record.items()
            if name not in (*OTHERS, *self.taken)
            and re.fullmatch(r"[\w-]+", name)  # else it may be a text, in a file without a header
            and has_words(value)
        ]
        if len(possible) == 1:
            say(f"The text is the column {possible[0]} of {path} (--field names another).")
            return possible[0]
        there = ", ".join(name for name in record if name != "where")
        raise GlassformerError(
            f"{path} has no column text, only {there}; name the one that has the text by --field."
        )


def has_words(value: Any) -> bool:
    """Whether it is a text with letters, and no date."""
    if not isinstance(value, str) or not any(letter.isalpha() for letter in value):
        return False
    try:
        datetime.fromisoformat(value.strip())
    except ValueError:
        return True
    return False
