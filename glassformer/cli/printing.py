"""Output of commands: one row per result, in columns or as JSON.

The width of a terminal limits the columns. In a file or a pipe nothing is truncated: tabs separate
the cells of a row, and tables are as wide as their cells.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rich.cells import set_cell_size
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from glassformer.errors import UnknownTextWarning

if TYPE_CHECKING:
    from glassformer.cli.input_records import InputRecords

Each = TypeVar("Each")
UNLIMITED = 2**24  # columns of a file or a pipe


def is_main_process() -> bool:
    """Returns whether this is the process that prints, of those that torchrun has started."""
    return os.environ.get("RANK", "0") == "0"


@dataclass(frozen=True)
class Column:
    """Column of a given width in characters.

    Width 0 takes the rest of the terminal, for at most one column. A `whole` column is not
    truncated and must be the last.
    """

    name: str
    width: int = 0
    style: str = ""
    right: bool = False
    whole: bool = False


class ResultRows:
    """Prints results one at a time, as soon as they are computed.

    If standard output is not a terminal, cells are `complete` and separated by tabs.
    """

    def __init__(self, columns: Sequence[Column], as_json: bool) -> None:
        self._console = Console(highlight=False, markup=False)
        self.complete = not sys.stdout.isatty()
        fixed = sum(column.width + 2 for column in columns if column.width)
        rest = max(self._console.width - fixed, 16)
        self._columns = [(column, column.width or rest) for column in columns]
        self._json = as_json
        self._begun = False

    def add(self, cells: Sequence[str], record: Mapping[str, Any]) -> None:
        """Prints a result: `cells` in columns, or `record` as JSON."""
        if self._json:
            print_json(record)
            return
        if not self._begun:
            self._begun = True
            self._print([column.name for column, _ in self._columns], bold=True)
        self._print(cells)

    def _print(self, cells: Sequence[str], bold: bool = False) -> None:
        if self.complete:
            print("\t".join(map(in_one_line, cells)), flush=True)
            return
        line = Text(no_wrap=True, overflow="crop")
        for (column, width), cell in zip(self._columns, cells, strict=True):
            status = cell if column.whole else fit_cell(cell, width, column.right)
            line.append(status, "bold" if bold else column.style).append("  ")
        line.rstrip()
        self._console.print(line, soft_wrap=True)


def fit_cell(cell: str, width: int, right: bool = False) -> str:
    """Fits a cell into one line of `width` terminal columns; Chinese characters take two."""
    text = Text(in_one_line(cell))
    text.truncate(width, overflow="ellipsis")
    if right:
        return " " * (width - text.cell_len) + text.plain
    return set_cell_size(text.plain, width)


def in_one_line(cell: str) -> str:
    """Returns a text with line breaks and tabs replaced, for one cell."""
    return " ".join(cell.splitlines()).expandtabs(1)


WHERE = Column("where", 20)  # for tables whose rows do not show their text


def place_of(record: Mapping[str, Any]) -> str:
    """Returns the location of a record without the folder, for display."""
    return str(record["where"]).rpartition("/")[2]


def about(
    record: Mapping[str, Any], inputs: Mapping[str, Any], keep: Sequence[str] | None = None
) -> dict[str, Any]:
    """Returns the identification of a record for its result.

    That is its location, its id if it has one, the input (`inputs`), and the columns in `keep`.
    """
    columns = {name: record[name] for name in ("id", *(keep or ())) if name in record}
    return {"where": record["where"], **columns, **inputs}


def print_json(record: Mapping[str, Any]) -> None:
    """Prints a line of JSON; lone surrogates are escaped."""
    line = json.dumps(record, ensure_ascii=False)
    sys.stdout.write(line.encode("utf-8", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


def print_note(line: str) -> None:
    """Prints a message on standard error."""
    with suppress(OSError):  # a terminal that was closed
        Console(stderr=True, soft_wrap=True).print(line, markup=False, highlight=False)


@contextmanager
def printed_warnings() -> Iterator[None]:
    """Prints the package's warnings on standard error, each sentence once."""
    before, printed = warnings.showwarning, set[str]()

    def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, UnknownTextWarning):
            before(message, category, *place, **more)
        elif str(message) not in printed:
            printed.add(str(message))
            print_note(f"note: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UnknownTextWarning)
        warnings.showwarning = show
        yield


def output_console(**options: Any) -> Console:
    """Returns a rich console for standard output that wraps and truncates only in a terminal."""
    return Console(width=None if sys.stdout.isatty() else UNLIMITED, **options)


def progress_bar(*columns: ProgressColumn, console: Console, **options: Any) -> Progress:
    """Returns a progress bar on standard error.

    Results go directly to standard output; rich would redirect them to the console of the bar.
    """
    return Progress(*columns, console=console, redirect_stdout=False, **options)


@contextmanager
def progress(inputs: InputRecords, title: str, shown: bool = True) -> Iterator[Any]:
    """Yields a function that passes results on and updates a bar by the bytes read.

    The bar is on standard error. It is hidden if that is not a terminal, and if the results appear
    in the terminal instead (unless they are not `shown` at once).
    """
    console = Console(stderr=True)
    seen = console.is_terminal and not (shown and sys.stdout.isatty())
    bar = progress_bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not seen,
    )

    def passed(results: Iterable[Each]) -> Iterator[Each]:
        task = bar.add_task(title, total=inputs.total, status="")
        for number, result in enumerate(results, 1):
            seconds = bar.tasks[0].elapsed or 0
            status = f"{number:,} done, {number / seconds:,.0f}/s" if seconds else ""
            bar.update(task, completed=inputs.done, status=status)
            yield result

    with bar:
        yield passed
