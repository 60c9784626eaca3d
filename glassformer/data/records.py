"""The records of a split, from files of any format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from glassformer.data.data_config import DataSettings
from glassformer.data.files import TextFileReader, find_files
from glassformer.data.readers import READERS, Found, read_parallel
from glassformer.data.record import Record, RecordError
from glassformer.errors import ConfigError, DataError


class Records:
    """Iterates over the records of a split's files; `done` of `total` bytes have been read."""

    def __init__(self, settings: DataSettings, split: str) -> None:
        self.settings, self.split = settings, split
        patterns = getattr(settings, split)
        if not patterns:
            raise ConfigError(f"The recipe names no files to read; say data.{split}.")
        self.files = [find_files([pattern]) for pattern in patterns]
        self.file_reader = TextFileReader([path for paths in self.files for path in paths])

    @property
    def paths(self) -> list[Path]:
        return list(self.file_reader.paths)

    @property
    def total(self) -> int:
        return self.file_reader.total

    @property
    def done(self) -> int:
        return self.file_reader.done

    def __iter__(self) -> Found:
        return renamed(self._read(), self.settings.columns)

    def strict(self) -> Iterator[Record]:
        """Yields the valid records.

        A malformed record is skipped or raises an error, as data.on_error says. Raises an error if
        there is no valid record.
        """
        used = skipped = 0
        reasons: list[str] = []
        for record in self:
            if not isinstance(record, RecordError):
                used += 1
                yield record
            elif self.settings.on_error == "stop":
                raise record.refused()
            else:
                skipped += 1
                reasons = reasons or [str(record)]
        if not used:
            raise self.useless(skipped, reasons)

    def useless(self, skipped: int, reasons: list[str]) -> DataError:
        """Returns the error for a split without usable records."""
        why = f" None of {skipped} could be used; the first: {reasons[0]}" if reasons else ""
        return DataError(
            f"There are no records in data.{self.split} ({self.paths[0]}).{why}", path=self.paths[0]
        )

    def _read(self) -> Found:
        if self.settings.format == "parallel":
            yield from read_parallel(self.file_reader, self.files, self.settings)
            return
        for path in self.paths:
            yield from READERS[self.settings.format](self.file_reader, path, self.settings)


def renamed(records: Found, columns: Mapping[str, str]) -> Found:
    """Yields records with additional columns under the names that the objective uses."""
    for record in records:
        if columns and not isinstance(record, RecordError):
            lacking = [name for name in columns.values() if name not in record]
            if lacking:
                there = ", ".join(name for name in record if name != "where")
                yield RecordError(
                    record["where"],
                    f"there is no column {lacking[0]!r}, which [data.columns] names, only {there}",
                )
                continue
            record = {**record, **{ours: record[theirs] for ours, theirs in columns.items()}}
        yield record
