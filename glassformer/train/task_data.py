"""The files of a task: their layout and their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.data.data_config import DataSettings
from glassformer.data.detect import detect
from glassformer.data.files import find_files
from glassformer.data.record import Record, RecordError
from glassformer.data.records import Records
from glassformer.data.sources import format_of
from glassformer.data.speech import TRANSCRIPTS
from glassformer.errors import DataError
from glassformer.tasks.registry import TrainingData
from glassformer.train.coerce import fill

if TYPE_CHECKING:
    from glassformer.train.task_recipe import TaskOptions

MOST = 200_000  # rows that are read for their labels
LETTERS = 4  # of a token, about
TEXT_ROW = 200  # bytes of running text that count as a row
NAMED = ("csv", "tsv", "jsonl", "parquet")  # formats with names of columns
WANTED = {  # what a task reads, for messages
    "tag": "CoNLL files (a word and its tag per line), or JSON lines with words and tags",
    "answer": "SQuAD files, or JSON lines with question, context and answers",
    "transcribe": "tables with audio and text, Common Voice's, or folders as LibriSpeech's",
}


@dataclass(frozen=True)
class TaskFiles:
    """The files of a task.

    Attributes:
        settings: The keys of the [data] table that say how they are read.
        records: The rows, or the first of very many.
        rows: Their number, estimated if there are very many.
        notes: Sentences on what was found.
    """

    settings: dict[str, Any]
    records: list[Record]
    rows: int
    notes: list[str] = field(default_factory=list)

    @property
    def first(self) -> str:
        return str(self.settings["train"][0])

    @property
    def has_names(self) -> bool:
        """Whether the format has names of columns."""
        return self.settings["format"] in NAMED

    @property
    def longest(self) -> int:
        """The number of tokens of a long row, estimated."""
        letters = [sum(map(_letters, record.values())) for record in self.records[:1000]]
        return max(16, sorted(letters)[int(len(letters) * 0.99)] // LETTERS)


def read_files(
    verb: str, training: TrainingData, files: Sequence[str], options: TaskOptions
) -> TaskFiles:
    """Reads the files of a task, and finds out how they are written."""
    if not files:
        raise DataError(f"Name the file to learn from: glassformer train {verb} FILE.")
    train = [pattern for file in files for pattern in _patterns(verb, file)]
    paths = find_files(train)
    layout = _layout(paths, training, options)
    settings: dict[str, Any] = {"train": train, **layout}
    if options.on_error != "stop":
        settings["on_error"] = options.on_error
    records = Records(fill(DataSettings, "data", settings), "train")
    first = [one for one in islice(records, MOST) if not isinstance(one, RecordError)]
    if not first:
        error = next(iter(records), None)
        why = f" ({error})" if isinstance(error, RecordError) else ""
        raise DataError(
            f"{paths[0]} holds no row that can be read as {settings['format']}{why}; give another "
            f"--format, --delimiter or --encoding{wanted(verb)}.",
            path=paths[0],
        )
    if settings["format"] == "text":
        rows = max(1, records.total // TEXT_ROW)
    else:
        share = min(1.0, records.done / max(records.total, 1)) if len(first) == MOST else 1.0
        rows = round(len(first) / share)
    return TaskFiles(settings, first, rows, _notes(paths[0], settings))


def wanted(verb: str) -> str:
    """Returns what a task reads, for the end of a message; empty if that is any table."""
    return f"; {verb} reads {WANTED[verb]}" if verb in WANTED else ""


def _patterns(verb: str, file: str) -> list[str]:
    """Returns the patterns of a file or a folder."""
    folder = Path(file)
    if not folder.is_dir():
        return [file]
    if verb == "transcribe" and any(folder.rglob(f"*{TRANSCRIPTS}")):
        return [f"{file.rstrip('/')}/**/*{TRANSCRIPTS}"]
    if verb not in ("generate", "fill"):
        raise DataError(f"{file} is a folder; {verb} learns from a file with its rows.", path=file)
    texts = any(folder.rglob("*.txt"))
    return [f"{file.rstrip('/')}/**/*{'.txt' if texts else ''}"]


def _layout(paths: Sequence[Path], training: TrainingData, options: TaskOptions) -> dict[str, Any]:
    """Returns the keys of the [data] table that say how the files are written."""
    roles = {**training.columns, **training.optional}
    names = {*roles, *(name for others in roles.values() for name in others)}
    names |= {name.lower() for name in options.columns.values()}
    form = None if options.format is None else format_of(options.format)
    plain = format_of(training.format or "tsv")
    layout = detect(paths[0], plain, names, form, options.encoding)
    numbered = [f"column {number}" for number in range(1, len(layout.header) + 1)]
    if not names.isdisjoint(numbered) and names.isdisjoint(map(str.lower, layout.header)):
        layout = replace(layout, has_header=False)  # the user says so by these names
    settings = layout.settings(numbered)
    if options.delimiter is not None:
        settings["delimiter"] = options.delimiter.replace("\\t", "\t")
    return settings


def _notes(path: Path, settings: dict[str, Any]) -> list[str]:
    found = []
    if settings.get("encoding", "utf-8") != "utf-8":
        found.append(f"{path} is not UTF-8; it is read as {settings['encoding']} (--encoding).")
    if "column_names" in settings:
        found.append(
            f"{path} has no header; its columns are {', '.join(settings['column_names'])}."
        )
    return found


def _letters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return sum(map(_letters, value)) if isinstance(value, list | tuple) else 4
