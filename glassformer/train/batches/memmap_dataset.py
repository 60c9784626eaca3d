"""Examples on disk, as memory-mapped arrays.

For each field, a folder holds a flat file of all its values and one of offsets, where examples
begin; `begins`, one byte per example, marks where documents begin; header.json describes the
contents.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import numpy as np
from numpy.typing import DTypeLike, NDArray

from glassformer.errors import DataError, LoadError
from glassformer.storage.parsing import read_json
from glassformer.train.batches.sampler import Numbers
from glassformer.train.objectives.rows import Example, RaggedColumn, Rows, sliced
from glassformer.train.objectives.tally import Tally

HEADER = "header.json"
Fields = Mapping[str, type[np.generic]]


@dataclass
class ExampleBlock:
    """Prepared examples of some records: by field, the concatenated values and the lengths."""

    values: dict[str, NDArray[Any]]
    lengths: dict[str, Numbers]
    begins: NDArray[np.bool_]
    skipped: list[str]  # the reason for each skipped record
    tally: Tally


class MemmapDataset:
    """Examples by index, and tokens by position in the stream of all examples.

    The stream is available only if all fields of an example have the same length (`parallel`).
    """

    def __init__(self, folder: Path) -> None:
        header = read_json(folder / HEADER)
        self.folder = folder
        try:
            self.count, self.documents = int(header["examples"]), int(header["documents"])
            self.parallel, self.skipped = bool(header["parallel"]), int(header["skipped"])
            self.reasons: list[str] = list(header["reasons"])
            self.tally = Tally.read(header["tally"])
            fields = {name: np.dtype(str(kind)) for name, kind in header["fields"].items()}
            files = {name: (folder / _values(name), folder / _offsets(name)) for name in fields}
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, SyntaxError):
            raise self._damaged(HEADER) from None
        self._values = {name: _mapped(values, fields[name]) for name, (values, _) in files.items()}
        self._offsets = {name: _mapped(offsets, np.int64) for name, (_, offsets) in files.items()}
        self._begins = _mapped(folder / "begins", np.bool_)
        if not fields or len(self._begins) != self.count:
            raise self._damaged("begins")
        for name, offsets in self._offsets.items():
            ends = offsets[[0, -1]].tolist() if len(offsets) else []
            if len(offsets) != self.count + 1 or ends != [0, len(self._values[name])]:
                raise self._damaged(_offsets(name))

    def _damaged(self, name: str) -> LoadError:
        return LoadError(
            f"{self.folder / name} is damaged; remove {self.folder}, and the data are prepared "
            "again."
        )

    def __len__(self) -> int:
        return self.count

    def __reduce__(self) -> tuple[type[MemmapDataset], tuple[Path]]:
        """A process that receives the dataset maps the same files."""
        return MemmapDataset, (self.folder,)

    def __getitem__(self, number: int) -> Example:
        return self.rows(np.array([number]))[0]

    def rows(self, numbers: Numbers) -> Rows:
        """Returns the examples with these numbers."""
        columns: dict[str, RaggedColumn] = {}
        for name in self._values:
            starts = self._offsets[name][numbers]
            columns[name] = self._sliced(name, starts, self._offsets[name][numbers + 1] - starts)
        return Rows(columns)

    def _sliced(self, name: str, starts: Numbers, lengths: Numbers) -> RaggedColumn:
        values = self._values[name]
        if len(starts) and (min(starts.min(), lengths.min()) < 0
                            or (starts + lengths).max() > len(values)):  # fmt: skip
            raise self._damaged(_offsets(name))
        return sliced(values, starts, lengths)

    @property
    def size(self) -> int:
        """Total number of tokens, if all fields have equal lengths."""
        return len(next(iter(self._values.values())))

    def lengths(self) -> Numbers:
        """Returns the length of each example's longest field, without fields of bytes (text)."""
        longest = np.zeros(self.count, np.int64)
        for name, values in self._values.items():
            if values.dtype.itemsize > 1:
                np.maximum(longest, np.diff(self._offsets[name]), out=longest)
        return longest

    @property
    def edges(self) -> Numbers:
        """Start of every example in the stream of all, and the end of the last."""
        return np.asarray(next(iter(self._offsets.values())))

    def lengths_of(self, field: str) -> Numbers:
        return np.diff(self._offsets[field])

    def slices(self, starts: Numbers, lengths: Numbers) -> Rows:
        """Returns slices of the stream that all examples form."""
        return Rows({name: self._sliced(name, starts, lengths) for name in self._values})

    @cached_property
    def document_starts(self) -> Numbers:
        """Where documents begin in the stream of all examples, in order and without repetition."""
        return np.unique(self.edges[:-1][self._begins])


class MemmapWriter:
    """Writes blocks one by one without keeping them; the files do not depend on the block sizes."""

    def __init__(self, folder: Path, fields: Fields) -> None:
        self.folder, self.fields = folder, fields
        self.count = self.documents = self.skipped = 0
        self.reasons: list[str] = []
        self.tally = Tally()
        self.parallel = True
        self._sizes = dict.fromkeys(fields, 0)
        self._files: dict[str, BinaryIO] = {
            name: (folder / name).open("wb")
            for field in fields
            for name in (_values(field), _offsets(field))
        }
        self._files["begins"] = (folder / "begins").open("wb")
        for field in fields:
            self._files[_offsets(field)].write(np.zeros(1, np.int64).tobytes())

    def add(self, block: ExampleBlock) -> None:
        for name, values in block.values.items():
            self._files[_values(name)].write(values.data)
            ends = self._sizes[name] + np.cumsum(block.lengths[name])
            self._files[_offsets(name)].write(ends.data)
            self._sizes[name] += len(values)
        self._files["begins"].write(block.begins.data)
        self.count += len(block.begins)
        self.documents += int(block.begins.sum())
        one, *others = block.lengths.values()
        self.parallel &= all(np.array_equal(one, other) for other in others)
        self.skipped += len(block.skipped)
        self.reasons += block.skipped[: 5 - len(self.reasons)]
        self.tally.add(block.tally)

    def close(self, about: Mapping[str, Any]) -> None:
        """Syncs all files to disk, then writes the header."""
        header = {
            "examples": self.count,
            "documents": self.documents,
            "parallel": self.parallel,
            "fields": {name: np.dtype(kind).name for name, kind in self.fields.items()},
            "skipped": self.skipped,
            "reasons": self.reasons,
            "tally": self.tally.to_dict(),
            "about": about,
        }
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        with (self.folder / HEADER).open("wb") as file:
            file.write((json.dumps(header, indent=2) + "\n").encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())

    def abandon(self) -> None:
        for file in self._files.values():
            file.close()


def block_of(
    examples: list[Example],
    begins: list[bool],
    skipped: list[str],
    fields: Fields,
    tally: Tally | None = None,
) -> ExampleBlock:
    """Returns a block of examples, with the dtypes of their fields."""
    values: dict[str, NDArray[Any]] = {}
    for name, kind in fields.items():
        arrays = [example[name] for example in examples]
        values[name] = np.concatenate([np.zeros(0, kind), *(_as(name, a, kind) for a in arrays)])
    lengths = {
        name: np.array([len(example[name]) for example in examples], np.int64) for name in fields
    }
    return ExampleBlock(values, lengths, np.array(begins, np.bool_), skipped, tally or Tally())


def _as(name: str, array: NDArray[Any], kind: type[np.generic]) -> NDArray[Any]:
    """Converts to the field's dtype; raises an error if the values do not fit."""
    if array.dtype == kind or not len(array):
        return array.astype(kind)
    limits = np.iinfo(kind) if issubclass(kind, np.integer) else None
    if limits and (array.min() < limits.min or array.max() > limits.max):
        raise DataError(
            f"The field {name!r} is stored as {np.dtype(kind).name}, and {array.min()} to "
            f"{array.max()} do not fit that; its objective must declare a wider one."
        )
    return array.astype(kind)


def _values(field: str) -> str:
    """Returns the file name of a field, whose name may contain a slash."""
    return f"{quote(field, safe='')}.bin"


def _offsets(field: str) -> str:
    return f"{quote(field, safe='')}.offsets"


def _mapped(path: Path, dtype: DTypeLike) -> NDArray[Any]:
    """Maps a file as a plain array, because slices of a `memmap` are slow to create."""
    kind = np.dtype(dtype)
    if not path.is_file():
        raise LoadError(
            f"{path} is not there; remove {path.parent}, and the data are prepared again."
        )
    if kind.kind not in "biuf" or path.stat().st_size % kind.itemsize:
        raise LoadError(
            f"{path} does not hold {kind.name} numbers; remove {path.parent}, and the data are "
            "prepared again."
        )
    if path.stat().st_size == 0:
        return np.zeros(0, kind)
    return np.asarray(np.memmap(path, kind, mode="r")).view(np.ndarray)
