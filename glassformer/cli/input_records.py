"""Input records of commands, from an argument, standard input, or files.

Errors name the invalid line. `--on-error stop` ends there; `skip` counts it and continues.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

import typer

from glassformer.cli.path_arguments import file_named
from glassformer.cli.printing import print_note
from glassformer.cli.shared_options import OnError
from glassformer.cli.text_column import OTHERS, TextColumn
from glassformer.data.data_config import DataSettings
from glassformer.data.detect import detected
from glassformer.data.files import TextFileReader, find_files
from glassformer.data.readers import READERS, form_of, read_text
from glassformer.data.record import Record as Record
from glassformer.data.record import RecordError
from glassformer.data.sources import format_of, join_pieces
from glassformer.errors import ConfigError, DataError, GlassformerError, InputError
from glassformer.tasks.task_settings import COLUMNS, settings_of

if TYPE_CHECKING:
    from glassformer.tasks.model_protocol import TaskModel

Question = TypeVar("Question")
Result = TypeVar("Result")
STDIN = Path("standard input")
TABLES = ("csv", "tsv", "parquet")
WAIT = 0.05  # seconds without a new line after which the lines before it are processed


class InputLine(dict[str, Any]):
    """Record that is a line of a text file."""


class InputRecords:
    """Iterates over input records, each with its location as "where".

    Plain texts are records with a "text". `done` of `total` bytes have been read; `used` and
    `skipped` count records.

    Args:
        word: Text, or path of a file, from the command line; "-" or None for standard input.
        files: Paths or patterns of files.
        form: Format of the files; None determines it by their suffix.
        stdin_form: Format of standard input, unless `form` is given.
        column: Column with the text.
        encoding: Encoding of the input; None finds that of files, and is UTF-8 for others.
        whole: Whether a text file is one record instead of one per line.
        on_error: "stop" at an invalid record, or "skip" it.
    """

    def __init__(
        self,
        word: str | None = None,
        files: Sequence[str] | None = None,
        *,
        form: str | None = None,
        stdin_form: str = "text",
        column: TextColumn | None = None,
        encoding: str | None = None,
        whole: bool = False,
        on_error: OnError = "stop",
    ) -> None:
        if files and word is not None:
            raise ConfigError("Give one of TEXT and --file.")
        self.word = None if word == "-" else word
        paths = find_files(files or [])
        if self.word is not None and (path := file_named(self.word, form)) is not None:
            self.word, paths = None, [path]
        self.file_reader = Opened(paths or ([STDIN] if self.word is None else []))
        if form not in (None, *READERS):
            raise ConfigError(f"There is no format {form!r}; there are {', '.join(READERS)}.")
        self.form, self.whole, self.on_error = form, whole, on_error
        self.stdin_form, self.column = stdin_form, column or TextColumn()
        self.encoding, self.settings = encoding, DataSettings(encoding=encoding or "utf-8")
        self.used = self.skipped = 0
        self._stopped: GlassformerError | KeyboardInterrupt | None = None

    @property
    def total(self) -> int | None:
        return self.file_reader.total or None

    @property
    def done(self) -> int:
        return self.file_reader.done

    def __iter__(self) -> Iterator[Record]:
        for record in self.read():
            if isinstance(record, RecordError):
                self.bad(record.where, record.wrong, record.encoding_advice)
            else:
                yield record

    def trained_on(self, model: TaskModel) -> None:
        """Reads the column of tables that the model was trained on, unless another is named."""
        self.column = replace(self.column, learned=settings_of(model, COLUMNS).get("text"))

    def answers(
        self,
        question: Callable[[Record], Question],
        work: Callable[[Iterator[Question]], Iterable[Result | GlassformerError]],
    ) -> Iterator[tuple[Record, Result]]:
        """Yields records with their results, as soon as these are available.

        An invalid record and Ctrl-C end the iteration as if there were no more input, so that a
        command finishes its work on the records before; `end` then reports the reason.

        Args:
            question: Makes the input of `work` from a record. Errors it raises concern that record
                only.
            work: Maps inputs to results in the same order; an error in place of a result concerns
                that record only. The inputs from standard input are a `LiveIterator`.
        """
        waiting: deque[Record] = deque()

        def make_questions() -> Iterator[Question]:
            try:
                for record in self:
                    try:
                        made = question(record)
                    except GlassformerError as error:
                        self.bad(record["where"], str(error))
                        continue
                    waiting.append(record)
                    yield made
            except GlassformerError as error:  # the records before it are still answered
                self._stopped = error

        try:
            questions = make_questions()
            live = self.file_reader.paths == [STDIN]
            for result in work(LiveIterator(questions) if live else questions):
                record = waiting.popleft()
                if isinstance(result, GlassformerError):
                    self.bad(record["where"], str(result))
                else:
                    self.used += 1
                    yield record, result
        except (GlassformerError, KeyboardInterrupt) as error:
            self._stopped = error

    def bad(self, where: str, wrong: str, advice: str = "") -> None:
        error = RecordError(where, wrong.rstrip("."), advice.partition("command line ")[2])
        if self.on_error == "stop":
            raise error.refused("continue with --on-error skip")
        self.skipped += 1
        print_note(f"{error.where}: {error.wrong}; skipped.")

    def raise_if_stopped(self) -> None:
        """Raises the error that has ended the reading, so that no incomplete file is written."""
        if isinstance(self._stopped, GlassformerError):
            raise self._stopped

    @property
    def stopped(self) -> bool:
        """Whether reading stopped before the end of the input."""
        return self._stopped is not None

    def end(self) -> None:
        """Reports skipped records, an interruption, or empty input; called when a command ends."""
        if self.skipped:
            print_note(f"{self.used:,} used, {self.skipped:,} skipped.")
        if isinstance(self._stopped, KeyboardInterrupt):
            print_note(f"Interrupted; {self.used:,} are done.")
            raise typer.Exit(130)
        if self._stopped is not None:
            raise self._stopped
        if not self.used and not self.skipped:
            raise InputError("The input is empty; give a text, or a file with texts.")

    def read(self) -> Iterator[Record | RecordError]:
        """Yields records as they are read, with a `RecordError` in place of invalid ones."""
        if self.word is not None:
            yield {self.column.name or "text": self.word, "where": "TEXT"}
        for path in self.file_reader.paths:
            form = self.form or (self.stdin_form if path == STDIN else form_of(path))
            settings = self._layout(path, form)
            if form in TABLES or (form == "jsonl" and self.column.learned is not None):
                rows = READERS[form](self.file_reader, path, settings)
                yield from self.column.provide(rows, path)
            elif form != "text":
                yield from READERS[form](self.file_reader, path, settings)
            elif self.whole:
                for record in join_pieces(read_text(self.file_reader, path, settings)):
                    yield record if isinstance(record, RecordError) else without_line_feed(record)
            else:
                for number, line in self.file_reader.lines(path, settings.encoding):
                    where = f"{path}:{number}"
                    yield (
                        line if isinstance(line, RecordError) else InputLine(text=line, where=where)
                    )

    def _layout(self, path: Path, form: str) -> DataSettings:
        """Returns how a file is written, and reports what is unusual."""
        if path == STDIN or not path.stat().st_size:
            return self.settings
        known = (self.column.name, self.column.learned, *self.column.defaults, *OTHERS)
        names = {name.lower() for name in known if name is not None}
        found = detected(path, format_of(form), names, self.encoding)
        if found.encoding != "utf-8" and self.encoding is None:
            print_note(f"{path} is read as {found.encoding} (--encoding names another).")
        if found.column_names:
            print_note(f"{path} has no header; its columns are {', '.join(found.column_names)}.")
        return found


class Opened(TextFileReader):
    """Files, or standard input, whose length is unknown."""

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__([path for path in paths if path != STDIN])
        self.paths = list(paths)

    @contextmanager
    def open(self, path: Path) -> Iterator[BinaryIO]:
        if path != STDIN:
            with super().open(path) as stream:
                yield stream
            return
        try:  # a thread waiting for sys.stdin itself would block the exit of Python
            own = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
        except OSError:
            own = cast(Any, sys.stdin.buffer)
        yield cast(BinaryIO, own)


def without_line_feed(record: Record) -> Record:
    """Returns the record of a text file without the line feed at its end."""
    return {**record, "text": record["text"].removesuffix("\n")}


def field_of(record: Record, name: str, option: str | None = "--field") -> str:
    """Returns a column with a text that is not empty; errors mention `option`, which selects it."""
    if name not in record:
        raise missing(record, name, option)
    text = record[name]
    if not isinstance(text, str):
        raise DataError(f"the field {name!r} is not a text but {str(text)[:40]!r}")
    if not text.strip():
        raise DataError(f"the {name if option is None else 'text'} is empty")
    return text


def missing(record: Record, name: str, option: str | None) -> DataError:
    there = ", ".join(sorted(set(record) - {"where"})) or "none"
    way = "" if option is None else f" ({option})"
    return DataError(f"there is no field {name!r}, only {there}{way}")


class LiveIterator(Iterator[Question]):
    """Runs an iterable in a thread; `ready` returns whether the next item is available."""

    def __init__(self, items: Iterable[Question]) -> None:
        self._items = items
        self._queue: Queue[Question | BaseException] = Queue(maxsize=1024)
        self._next: list[Question | BaseException] = []  # at most one item
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for item in self._items:
                self._queue.put(item)
            self._queue.put(StopIteration())
        except BaseException as error:
            self._queue.put(error)

    def ready(self) -> bool:
        if not self._next:
            try:
                self._next.append(self._queue.get(timeout=WAIT))
            except Empty:
                return False
        return True

    def __next__(self) -> Question:
        item = self._next.pop() if self._next else self._queue.get()
        if isinstance(item, BaseException):
            self._next.append(item)
            raise item
        return item
