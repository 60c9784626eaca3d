"""Texts, references and their metrics for translate and summarize."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glassformer.cli.input_records import InputLine, InputRecords, Record, field_of
from glassformer.cli.printing import print_json, print_note
from glassformer.data.readers import form_of
from glassformer.errors import ConfigError, DataError
from glassformer.metrics.translation import SignedMetric


def text_in(record: Record, field: str) -> str:
    """Returns the text of a record; a list of sentences is one text."""
    found = record.get(field)
    if isinstance(found, list) and found and all(isinstance(one, str) for one in found):
        return " ".join(found)
    return field_of(record, field)


def line_in(record: Record, field: str) -> str:
    """Returns the text of a record; empty lines of a text file are allowed, as layout."""
    if isinstance(record, InputLine) and field == "text":
        return str(record["text"])
    return text_in(record, field)


class ReferenceScores:
    """Collects generated texts with their references.

    References from a file belong to the input lines of the same number, also if some are skipped.
    """

    def __init__(
        self, inputs: InputRecords, file: str | None, field: str | None, encoding: str | None
    ) -> None:
        self.file, self.field = file, field
        self.written: list[str] = []
        self.right: list[list[str]] = []
        self.lines: dict[str, Record] = {}
        if file is None:
            return
        paths = inputs.file_reader.paths
        if len(paths) > 1 or any(form_of(path) in ("csv", "tsv") for path in paths):
            raise ConfigError(
                "--reference needs one text or JSON file as input; for other inputs, name the "
                "column of the references (--reference-field)."
            )
        for record in InputRecords(files=[file], encoding=encoding):
            if isinstance(record, dict):
                self.lines[_line(record)] = record

    def __bool__(self) -> bool:
        return self.file is not None or self.field is not None

    def references(self, record: Record) -> list[str]:
        """Returns the references of a record; raises an error for invalid ones before computing."""
        own = record
        if self.file is not None:
            line = "1" if record["where"] == "TEXT" else _line(record)
            if line not in self.lines:
                raise DataError(
                    f"{self.file} has no line {line} for it (--reference)", path=self.file
                )
            own = self.lines[line]
        name = self.field or "text"
        found = own.get(name)
        several = [found] if isinstance(found, str) else found
        if (
            not isinstance(several, list)
            or not several
            or not all(isinstance(x, str) for x in several)
        ):
            raise DataError(
                f"{own['where']} has no text, or list of texts, as {name!r} (--reference-field)"
            )
        return several

    def add(self, written: str, record: Record) -> None:
        self.written.append(written)
        self.right.append(self.references(record))

    def end(
        self,
        metrics: Callable[[Sequence[str], Sequence[Sequence[str]]], list[SignedMetric]],
        as_json: bool,
    ) -> None:
        """Prints the metrics of all texts, on standard error beside the texts unless as JSON."""
        if not self or not self.written:
            return
        found = metrics(self.written, self.right)
        if as_json:
            print_json({"metrics": [metric._asdict() for metric in found]})
            return
        for name, value, signature in found:
            print_note(f"{name:<10} {value:6.2f}  {signature}")


def _line(record: Record) -> str:
    return str(record["where"]).rpartition(":")[2]
