"""Selection of the columns of a user's file for a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from glassformer.data.readers import form_of
from glassformer.data.record import Record
from glassformer.errors import DataError
from glassformer.tasks.registry import TrainingData

OURS = ("where", "begins", "ends", "sentences")  # keys that readers add
SAMPLE = 1000  # records that are looked at


def choose_columns(
    source: str,
    records: Sequence[Record],
    training: TrainingData,
    given: Mapping[str, str],
) -> dict[str, str]:
    """Returns the column of the file for each column of the task.

    A column is the one that is given, the one of that name or of a usual other name, or the only
    one that is left.

    Args:
        source: The file, for error messages.
        records: Records of the file.
        training: The columns that the task needs.
        given: Columns that the user has named.
    """
    there = columns_of(records)
    known = {**training.columns, **training.optional}
    for role, name in given.items():
        if role not in known and role not in ("value", "labels"):
            raise DataError(f"There is no column {role!r} of this task, only {', '.join(known)}.")
        if name not in there:
            raise DataError(f"{source} has no column {name!r}{_near(name, there)}", path=source)
    found = dict(given)
    needed = [role for role in training.columns if role not in _given_roles(given)]
    for role in (*needed, *training.optional):
        names = (role, *known[role])
        left = [name for name in there if name not in found.values()]
        match = next((n for one in names for n in left if n.strip().lower() == one), None)
        if match is not None and role not in found:
            found[role] = match
    missing = [role for role in needed if role not in found]
    left = [name for name in there if name not in found.values()]
    possible = [name for name in left if not _identifies(name, records)] or left
    if missing and len(possible) == len(missing):
        found |= _by_elimination(missing, possible, records)
        missing = []
    if missing:
        raise _missing_columns(source, missing, there)
    return found


def columns_of(records: Sequence[Record]) -> list[str]:
    """Returns the names of the columns of records, in their order."""
    return [name for name in dict.fromkeys(k for record in records for k in record)
            if name not in OURS]  # fmt: skip


def _given_roles(given: Mapping[str, str]) -> set[str]:
    """Returns the columns that are given; `value` and `labels` are other kinds of labels."""
    return {"label" if role in ("value", "labels") else role for role in given}


def _by_elimination(
    roles: Sequence[str], columns: Sequence[str], records: Sequence[Record]
) -> dict[str, str]:
    """Assigns as many columns as there are; a text is longer than its label."""
    if set(roles) == {"text", "label"}:
        label, text = sorted(columns, key=lambda name: _distinct_and_length(name, records))
        return {"text": text, "label": label}
    return dict(zip(roles, columns, strict=True))


def _distinct_and_length(column: str, records: Sequence[Record]) -> tuple[int, float]:
    values = [str(record.get(column, "")) for record in records]
    return len(set(values)), sum(map(len, values)) / max(len(values), 1)


def _identifies(column: str, records: Sequence[Record]) -> bool:
    """Whether a column only numbers or dates the rows."""
    values = [record.get(column) for record in records]
    if column.strip().lower() in ("id", "idx", "index", "", "date", "time", "timestamp", "url"):
        return True
    numbers = all(isinstance(v, int) or str(v).isdecimal() for v in values)
    return numbers and len(values) > 2 and len(set(map(str, values))) == len(values)


def _missing_columns(source: str, missing: Sequence[str], there: Sequence[str]) -> DataError:
    options = " ".join(
        f"--{role} NAME" if role in ("text", "label") else f"--column {role}=NAME"
        for role in missing
    )
    hint = ""
    if len(there) < len(missing):
        hint = " (one column: is the delimiter another, or the format? --delimiter, --format)"
        if form_of(Path(source)) == "jsonl":
            hint = " (a row is one JSON object in a line, or in an array of them)"
    return DataError(
        f"{source} has the columns {', '.join(there) or 'none'}{hint}; name "
        f"the {'column' if len(missing) == 1 else 'columns'} of the {' and the '.join(missing)}: "
        f"{options}.",
        path=source,
    )


def _near(name: str, there: Sequence[str]) -> str:
    near = get_close_matches(name, there, 1, cutoff=0.7)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{hint}; it has {', '.join(there) or 'none'}."


def is_list(value: Any) -> bool:
    """Whether a value is a list of texts or numbers."""
    return isinstance(value, list | tuple)
