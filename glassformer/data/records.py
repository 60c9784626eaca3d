"""The records of a split, from files of any format."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

from glassformer.data.data_config import DataSettings
from glassformer.data.files import TextFileReader, find_files
from glassformer.data.readers import READERS, Found, form_of, read_parallel
from glassformer.data.record import Record, RecordError
from glassformer.errors import ConfigError, DataError


class Records:
    """Iterates over the records of a split's files; `done` of `total` bytes have been read.

    Args:
        settings: The [data] table.
        split: "train", "validation" or "test".
        seed: Determines the training records that are held out if `validation` is a fraction.
    """

    def __init__(self, settings: DataSettings, split: str, seed: int = 0) -> None:
        self.settings, self.split, self.seed = settings, split, seed
        patterns = settings.files(split)
        if not patterns:
            raise ConfigError(f"The recipe names no files to read; set data.{split}.")
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
        records = self._read()
        if self.settings.held_out and self.split != "test":
            part = self.split == "validation"
            records = divided(records, self.settings.held_out, self.seed, held_out=part)
        return renamed(records, self.settings.columns)

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
        if not reasons and self.settings.held_out:
            why = " data.train has too few records to hold some out; name files as data.validation."
        return DataError(
            f"There are no records in data.{self.split} ({self.paths[0]}).{why}", path=self.paths[0]
        )

    def _read(self) -> Found:
        if self.settings.format == "parallel":
            yield from read_parallel(self.file_reader, self.files, self.settings)
            return
        for path in self.paths:
            reader = READERS[self.settings.format or form_of(path)]
            yield from reader(self.file_reader, path, self.settings)


def divided(records: Found, fraction: float, seed: int, *, held_out: bool) -> Found:
    """Yields the records that are held out, or the others.

    One record is drawn from each 1/fraction consecutive ones. Where a document that is read in
    pieces is interrupted, a new document begins.
    """
    draw = random.Random(seed)
    stretches, end, chosen, broken = 0, 0, 0, False
    for number, record in enumerate(records):
        if number == end:
            stretches, start = stretches + 1, end
            end = math.ceil(stretches / fraction)
            chosen = draw.randrange(start, end)
        if (number == chosen) != held_out:
            broken = True
            continue
        if broken and not isinstance(record, RecordError) and not record.get("begins", True):
            record = {**record, "begins": True}
        broken = False
        yield record


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
