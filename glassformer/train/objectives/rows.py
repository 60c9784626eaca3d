"""The examples of a batch as columns, so that numpy works on all rows at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

Example = dict[str, NDArray[Any]]  # one-dimensional arrays, as they are stored
Lengths = NDArray[np.int64]


class RaggedColumn(NamedTuple):
    """One field of all rows: the joined values, and the number of values of each row."""

    values: NDArray[Any]
    lengths: Lengths

    @property
    def starts(self) -> Lengths:
        return np.cumsum(self.lengths) - self.lengths

    @property
    def places(self) -> Lengths:
        """The index of each value in its row."""
        return np.arange(len(self.values)) - np.repeat(self.starts, self.lengths)

    @property
    def rows(self) -> Lengths:
        """The row of each value."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def take(self, rows: NDArray[Any]) -> RaggedColumn:
        return sliced(self.values, self.starts[rows], self.lengths[rows])

    def where(self, kept: NDArray[np.bool_]) -> RaggedColumn:
        """Returns the values for which a mask is True."""
        return RaggedColumn(self.values[kept], sums(kept, self.lengths))


class Rows(Sequence[Example]):
    """Examples, stored by field.

    As a sequence it yields one example per row. Objectives that work on whole batches use
    `columns`. Nothing changes a column in place.
    """

    def __init__(self, columns: Mapping[str, RaggedColumn]) -> None:
        self.columns = dict(columns)
        self._starts = {name: column.starts for name, column in self.columns.items()}

    @classmethod
    def of(cls, examples: Sequence[Example]) -> Rows:
        """Returns the columns of examples; a field that an example lacks is empty there."""
        if isinstance(examples, Rows):
            return examples
        names = dict.fromkeys(name for example in examples for name in example)
        return cls({name: column_of(examples, name) for name in names})

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())).lengths)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> Example | Rows:
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        row = range(len(self))[index]
        found: Example = {}
        for name, (values, lengths) in self.columns.items():
            start = self._starts[name][row]
            found[name] = values[start : start + lengths[row]]
        return found

    def take(self, rows: NDArray[Any]) -> Rows:
        """Returns the rows with these indices."""
        return Rows({name: column.take(rows) for name, column in self.columns.items()})

    def __or__(self, columns: Mapping[str, RaggedColumn]) -> Rows:
        return Rows(self.columns | dict(columns))


def column_of(examples: Sequence[Example], name: str) -> RaggedColumn:
    """Returns one field of examples as a column; an example that lacks it has an empty row."""
    if isinstance(examples, Rows) and name in examples.columns:
        return examples.columns[name]
    arrays = [np.asarray(example[name]) for example in examples if name in example]
    lengths = [len(example[name]) if name in example else 0 for example in examples]
    values = np.concatenate(arrays) if arrays else np.zeros(0, np.int64)
    return RaggedColumn(values, np.array(lengths, np.int64))


def sliced(values: NDArray[Any], starts: Lengths, lengths: Lengths) -> RaggedColumn:
    """Returns the slices of an array that start at `starts` as the rows of a column."""
    shift = starts - (np.cumsum(lengths) - lengths)
    return RaggedColumn(values[np.repeat(shift, lengths) + np.arange(int(lengths.sum()))], lengths)


def sums(values: NDArray[Any], lengths: Lengths) -> Lengths:
    """Returns the sum of the values of each row."""
    total = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
    ends = np.cumsum(lengths)
    found: Lengths = total[ends] - total[ends - lengths]
    return found


def counted(flags: NDArray[np.bool_], lengths: Lengths) -> Lengths:
    """Returns for each value how many flags of its row are set up to and including its own."""
    total = np.cumsum(flags, dtype=np.int64)
    before = np.concatenate(([0], total))[np.cumsum(lengths) - lengths]
    found: Lengths = total - np.repeat(before, lengths)
    return found


def matrix(column: RaggedColumn, fill: Any, slots: int | None = None) -> NDArray[Any]:
    """Returns the values as [row, slot], padded at the end."""
    if slots is None:
        slots = int(column.lengths.max(initial=0))
    found = np.full((len(column.lengths), slots), fill, column.values.dtype)
    found[slot_mask(column.lengths, slots)] = column.values
    return found


def slot_mask(lengths: Lengths, slots: int) -> NDArray[np.bool_]:
    """Returns a mask of [row, slot] that is True at the values of the rows."""
    found: NDArray[np.bool_] = np.arange(slots) < lengths[:, None]
    return found


def framed(column: RaggedColumn, before: Iterable[int], behind: Iterable[int]) -> RaggedColumn:
    """Adds the same values before and behind each row."""
    front, back = np.array([*before], np.int64), np.array([*behind], np.int64)
    lengths = column.lengths + len(front) + len(back)
    values = np.empty(int(lengths.sum()), column.values.dtype)
    ends = np.cumsum(lengths)
    inside = np.ones(len(values), bool)
    for number, value in enumerate(front):
        values[ends - lengths + number] = value
        inside[ends - lengths + number] = False
    for number, value in enumerate(back):
        values[ends - len(back) + number] = value
        inside[ends - len(back) + number] = False
    values[inside] = column.values
    return RaggedColumn(values, lengths)


def concatenate(parts: Sequence[RaggedColumn]) -> RaggedColumn:
    """Joins, row by row, the values of several columns with equally many rows."""
    lengths = np.stack([part.lengths for part in parts], axis=1)  # [row, part]
    starts = np.stack([part.starts for part in parts], axis=1)
    offsets = np.cumsum([0, *(len(part.values) for part in parts[:-1])])
    values = np.concatenate([part.values for part in parts])
    found = sliced(values, (starts + offsets).flatten(), lengths.flatten())
    return RaggedColumn(found.values, lengths.sum(1))
