"""Records from files of any format, or from Python values, with handling of invalid ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from glassformer.data.data_config import Format
from glassformer.data.detect import detected
from glassformer.data.files import find_files
from glassformer.data.readers import form_of
from glassformer.data.record import Record, RecordError
from glassformer.data.records import Records, renamed
from glassformer.errors import ConfigError

Source = str | Path | Sequence[str | Path] | Iterable[Mapping[str, Any] | RecordError]
FORMATS: tuple[Format, ...] = get_args(Format)
OnError = Literal["stop", "skip"]


class RecordSource:
    """Iterates over the records of files, or over given records.

    Attributes:
        skipped: What was wrong with each record that was skipped.
        usual_columns: Column names of the task with other names that records may have instead.
    """

    def __init__(
        self,
        source: Source,
        *,
        format: str | None = None,
        default_format: str = "jsonl",
        columns: Mapping[str, str] | None = None,
        encoding: str | None = None,
        on_error: OnError = "stop",
    ) -> None:
        """Opens the source.

        Args:
            source: Paths or patterns of files, or the records themselves.
            format: Format of the files; None determines it by their suffix.
            default_format: Format of files whose suffix does not determine it.
            columns: Maps column names of the task to those of the data.
            encoding: Encoding of the files; None is UTF-8, or that of a table.
            on_error: "stop" at an invalid record, or "skip" it.
        """
        if on_error not in ("stop", "skip"):
            raise ConfigError(f'on_error is "stop" or "skip", not {on_error!r}.')
        self.on_error, self.skipped = on_error, list[str]()
        self.usual_columns: Mapping[str, str] = {}
        self.records: Iterable[Record | RecordError]
        columns, paths = dict(columns or {}), paths_of(source)
        if not paths:
            self.records = renamed(given(source), columns)
            return
        form = format_of(format or format_by_suffix(paths[0], default_format))
        names = {name.lower() for name in columns.values()}
        layout = detected(find_files(paths)[0], form, names, encoding)
        records = Records(replace(layout, test=tuple(paths), columns=columns), "test")
        self.records = join_pieces(records) if form == "text" else records

    def __iter__(self) -> Iterator[Record]:
        for record in self.records:
            if isinstance(record, RecordError):
                self.reject(record.where, record.wrong, record.encoding_advice)
            else:
                yield self._with_usual_columns(record)

    def _with_usual_columns(self, record: Record) -> Record:
        """Returns the record with the usual columns that it has under their other names alone."""
        more = {
            ours: record[theirs]
            for ours, theirs in self.usual_columns.items()
            if ours not in record and theirs in record
        }
        return {**record, **more} if more else record

    def reject(self, where: str, wrong: str, advice: str = "") -> None:
        """Raises an error for an invalid record, or counts it as skipped."""
        error = RecordError(
            where, wrong.removeprefix(f"{where} ").removeprefix(f"{where}: ").rstrip("."), advice
        )
        if self.on_error == "stop":
            raise error.refused("leave such records out (on_error skip)")
        self.skipped.append(str(error))


def paths_of(source: Source) -> list[str]:
    """Returns the paths of a source; empty if it contains records."""
    if isinstance(source, str | Path):
        return [str(source)]
    several = source if isinstance(source, Sequence) else ()
    return [str(one) for one in several if isinstance(one, str | Path)]


def given(source: Source) -> Iterator[Record | RecordError]:
    """Yields given records, with their index as location if they have none."""
    for number, record in enumerate(() if isinstance(source, str | Path) else source):
        if isinstance(record, Mapping):
            yield {"where": f"record {number}", **record}
        elif isinstance(record, RecordError):
            yield record
        else:
            wrong = f"a record is a dict, not {type(record).__name__}"
            yield RecordError(f"record {number}", wrong)


def format_of(name: str) -> Format:
    for known in FORMATS:
        if known == name:
            return known
    raise ConfigError(f"There is no format {name!r}; there are {', '.join(FORMATS)}.")


def format_by_suffix(path: str, default: str) -> str:
    """Returns the format by suffix; a .json file is SQuAD data if that is the default format."""
    found = form_of(Path(path))
    if found == "text" or (default == "squad" and Path(path).suffix == ".json"):
        return default
    return found


def join_pieces(records: Iterable[Record | RecordError]) -> Iterator[Record | RecordError]:
    """Joins the pieces in which text files are read: each file is one record.

    A file with an invalid piece is one `RecordError`, the first of its errors.
    """
    pieces: list[Record] = []
    error: RecordError | None = None
    for record in records:
        if isinstance(record, RecordError):
            error = error or record
            continue
        pieces.append(record)
        if record["ends"]:
            text = "".join(piece["text"] for piece in pieces)
            yield error or {**pieces[0], "text": text, "ends": True}
            pieces, error = [], None
    if error is not None:
        yield error
