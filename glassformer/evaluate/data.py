"""Evaluate room: where right answers are read from. Files, or records themselves, come in; records
go out, and of those that cannot be used what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from glassformer.errors import GlassformerError
from glassformer.train.data.files import RecordError
from glassformer.train.data.readers import READERS, form_of
from glassformer.train.data.records import Records
from glassformer.train.data.settings import DataSettings
from glassformer.train.objectives.objective import Record

Source = str | Path | Sequence[str | Path] | Iterable[Mapping[str, Any]]
OnError = Literal["stop", "skip"]


class Data:
    """Iterates over records. `skipped` says what was wrong with those that were left out."""

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
        """`form` is that of the files, and `usual` theirs whose ending does not tell."""
        if on_error not in ("stop", "skip"):
            raise GlassformerError(f'on_error is "stop" or "skip", not {on_error!r}.')
        self.on_error, self.skipped = on_error, list[str]()
        self.records: Iterable[Record | RecordError]
        paths = paths_of(source)
        if paths is None:
            self.records = named(source)  # type: ignore[arg-type]
            return
        chosen = form or ending_of(paths[0], usual)
        if chosen not in (*READERS, "parallel"):
            raise GlassformerError(
                f"There is no format {chosen!r}; there are {', '.join([*READERS, 'parallel'])}."
            )
        settings = DataSettings(
            test=tuple(map(str, paths)),
            format=chosen,  # type: ignore[arg-type]
            columns=dict(columns or {}),
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
            raise GlassformerError(
                f"{where}: {wrong}; mend it, or leave such records out (on_error skip)."
            )
        self.skipped.append(f"{where}: {wrong}.")


def paths_of(source: Source) -> list[str | Path] | None:
    """None where the records themselves were given."""
    if isinstance(source, str | Path):
        return [source]
    if isinstance(source, Sequence) and source and isinstance(source[0], str | Path):
        return list(source)
    return None


def ending_of(path: str | Path, usual: str) -> str:
    """A .json file may be one of SQuAD, where such are asked for."""
    found = form_of(Path(path))
    if found == "text" or (usual == "squad" and Path(path).suffix == ".json"):
        return usual
    return found


def named(records: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
    for number, record in enumerate(records):
        yield {"where": f"record {number}", **record}


def whole(records: Iterable[Record | RecordError]) -> Iterator[Record | RecordError]:
    """Plain text comes in pieces, which are joined again: the whole is one text."""
    held: list[str] = []
    for record in records:
        if isinstance(record, RecordError) or "ends" not in record:
            yield record
            continue
        held.append(record["text"])
        if record["ends"]:
            yield {**record, "text": "".join(held)}
            held = []
