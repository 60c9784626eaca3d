"""What verbs print: a row a result as they come, in columns for people or as JSON for programs.

A terminal's width limits what it shows. In a file or a pipe nothing is cut: tabs separate the cells
of a row, and tables are as wide as their cells need.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

if TYPE_CHECKING:
    from glassformer.cli.input_records import InputRecords

Each = TypeVar("Each")
UNLIMITED = 2**24  # columns of a file or a pipe


@dataclass(frozen=True)
class Column:
    """Of so many letters' width; 0 is what the terminal has left, for one column at most. What
    must not be cut short (`whole`) stands in the last one."""

    name: str
    width: int = 0
    style: str = ""
    right: bool = False
    whole: bool = False


class ResultRows:
    """Prints a result at a time, so that the first are there while others are computed. Where
    standard output is no terminal, every cell is `complete`, and tabs separate them."""

    def __init__(self, columns: Sequence[Column], as_json: bool) -> None:
        self._console = Console(highlight=False, markup=False)
        self.complete = not sys.stdout.isatty()
        fixed = sum(column.width + 2 for column in columns if column.width)
        rest = max(self._console.width - fixed, 16)
        self._columns = [(column, column.width or rest) for column in columns]
        self._json = as_json
        self._begun = False

    def add(self, cells: Sequence[str], record: Mapping[str, Any]) -> None:
        """The same result for people and for programs."""
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
            said = cell if column.whole else fitted(cell, width, column.right)
            line.append(said, "bold" if bold else column.style).append("  ")
        line.rstrip()
        self._console.print(line, soft_wrap=True)


def fitted(cell: str, width: int, right: bool = False) -> str:
    """In one line of so many columns of a terminal; Chinese letters take two."""
    text = Text(in_one_line(cell))
    text.truncate(width, overflow="ellipsis")
    if right:
        return " " * (width - text.cell_len) + text.plain
    return set_cell_size(text.plain, width)


def in_one_line(cell: str) -> str:
    return " ".join(cell.splitlines()).expandtabs(1)


WHERE = Column("where", 20)  # of tables about many texts, where a row does not show its own


def place_of(record: Mapping[str, Any]) -> str:
    """For people: without the folder."""
    return str(record["where"]).rpartition("/")[2]


def about(
    record: Mapping[str, Any], said: Mapping[str, Any], keep: Sequence[str] | None = None
) -> dict[str, Any]:
    """Which record a result belongs to: its place, its id where it has one, what was read, and
    columns that are to go along."""
    kept = {name: record[name] for name in ("id", *(keep or ())) if name in record}
    return {"where": record["where"], **kept, **said}


def print_json(record: Mapping[str, Any]) -> None:
    """A line; half a character of a broken text is written as JSON has it."""
    line = json.dumps(record, ensure_ascii=False)
    sys.stdout.write(line.encode("utf-8", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


def say(line: str) -> None:
    Console(stderr=True, soft_wrap=True).print(line, markup=False, highlight=False)


def output_console(**options: Any) -> Console:
    """rich's console of standard output, which wraps and cuts lines for a terminal alone."""
    return Console(width=None if sys.stdout.isatty() else UNLIMITED, **options)


def progress_bar(*columns: ProgressColumn, console: Console, **options: Any) -> Progress:
    """A bar on standard error. Results go to standard output, wherever that leads; rich would send
    them after the bar."""
    return Progress(*columns, console=console, redirect_stdout=False, **options)


@contextmanager
def progress(inputs: InputRecords, title: str, shown: bool = True) -> Iterator[Any]:
    """Gives a function that passes results on and moves a bar on standard error, by the bytes
    that were read. It is quiet where nobody sees it, and where the results can be seen instead
    (unless they are not `shown` as they come)."""
    console = Console(stderr=True)
    seen = console.is_terminal and not (shown and sys.stdout.isatty())
    bar = progress_bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[said]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not seen,
    )

    def passed(results: Iterable[Each]) -> Iterator[Each]:
        task = bar.add_task(title, total=inputs.total, said="")
        for number, result in enumerate(results, 1):
            seconds = bar.tasks[0].elapsed or 0
            said = f"{number:,} done, {number / seconds:,.0f}/s" if seconds else ""
            bar.update(task, completed=inputs.done, said=said)
            yield result

    with bar:
        yield passed
