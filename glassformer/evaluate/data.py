"""Reading of evaluation data from files or given records, with handling of invalid ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from glassformer.data.data_config import DataSettings, Format
from glassformer.data.readers import form_of
from glassformer.data.record import Record, RecordError, path_and_line
from glassformer.data.records import Records, renamed
from glassformer.errors import ConfigError, DataError

Source = str | Path | Sequence[str | Path] | Iterable[Mapping[str, Any] | RecordError]
FORMATS: tuple[Format, ...] = get_args(Format)
OnError = Literal["stop", "skip"]


class Data:
    """Iterates over the records of evaluation data.

    `skipped` says what was wrong with each record that was skipped.
    """

    def __init__(
        self,
        source: Source,
        *,
        form: str | None,
        usual: str,
        columns: Mapping[str, str] | None = None,
        encoding: str = "utf-8",
        on_error: OnError = "stop",
    ) -> None:
        """Opens the data.

        Args:
            source: Paths or patterns of files, or the records themselves.
            form: Format of the files; None determines it by their suffix.
            usual: Format of files whose suffix does not determine it.
            columns: Maps column names of the task to those of the data.
            encoding: Encoding of the files.
            on_error: "stop" at an invalid record, or "skip" it.
        """
        if on_error not in ("stop", "skip"):
            raise ConfigError(f'on_error is "stop" or "skip", not {on_error!r}.')
        self.on_error, self.skipped = on_error, list[str]()
        self.records: Iterable[Record | RecordError]
        names, paths = dict(columns or {}), paths_of(source)
        if not paths:
            self.records = renamed(given(source), names)
            return
        settings = DataSettings(
            test=tuple(paths),
            format=format_of(form or ending_of(paths[0], usual)),
            columns=names,
            encoding=encoding,
        )
        self.records = whole(Records(settings, "test"))

    def __iter__(self) -> Iterator[Record]:
        for record in self.records:
            if isinstance(record, RecordError):
                self.bad(record.where, record.wrong)
            else:
                yield record

    def bad(self, where: str, wrong: str) -> None:
        wrong = wrong.removeprefix(f"{where} ").rstrip(".")
        if self.on_error == "stop":
            path, line = path_and_line(where)
            raise DataError(
                f"{where}: {wrong}; mend it, or leave such records out (on_error skip).",
                path=path,
                line=line,
            )
        self.skipped.append(f"{where}: {wrong}.")


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


def ending_of(path: str, usual: str) -> str:
    """Returns the format by suffix; a .json file is SQuAD data if that is the usual format."""
    found = form_of(Path(path))
    if found == "text" or (usual == "squad" and Path(path).suffix == ".json"):
        return usual
    return found


def whole(records: Iterable[Record | RecordError]) -> Iterator[Record | RecordError]:
    """Joins the pieces in which plain text is read: each file is one text."""
    held: list[str] = []
    for record in records:
        if isinstance(record, RecordError) or "ends" not in record:
            yield record
            continue
        held.append(record["text"])
        if record["ends"]:
            yield {**record, "text": "".join(held)}
            held = []
