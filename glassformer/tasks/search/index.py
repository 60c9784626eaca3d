"""An on-disk index of passages and their vectors.

header.json            the settings of the index, and which folder of rows is in use
rows-N/vectors.bin     [row, width], as float16 or float32, each of length 1
rows-N/places.bin      [row, 4]: start and end in the file's text, and in texts.bin
rows-N/texts.bin       the passages one after the other, as UTF-8
rows-N/journal.jsonl   the files that the rows belong to, in order; other rows are not in use

Rows are only appended, and the line of the journal that describes everything added at a time is
written last: an interrupted update therefore ends with the last complete line. Rows of files that
have changed stay until they are many; then the others move to a new folder, and the header,
replaced by one rename, names that one.
"""

from __future__ import annotations

import fcntl
import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import GlassformerError, LoadError
from glassformer.storage.files import json_line, sync_folder, write_text
from glassformer.storage.folders import atomic_folder, complete_pending_save, tidy
from glassformer.storage.parsing import parse_json
from glassformer.tasks.index_header import (
    FORMAT,
    HEADER,
    JOURNAL,
    header_text,
    next_rows,
    opened,
    read_header,
    remove_rows,
    rows_folder,
)
from glassformer.tasks.search.nearest import nearest
from glassformer.tasks.search.passages import Passage

MOVED = 4096  # passages, or files, that move to a new folder at a time
Kept = Literal["float16", "float32"]


@dataclass
class IndexEntry:
    """The rows of a file in the index.

    `rows` are (first row, count) ranges, `digest` is the hash of the file's bytes, and `whole` is
    True if no passage is missing.
    """

    digest: str
    rows: list[tuple[int, int]] = field(default_factory=list)
    whole: bool = False

    @property
    def count(self) -> int:
        return sum(count for _, count in self.rows)


@dataclass(frozen=True)
class Added:
    """Passages of a file, in order, with a vector each."""

    file: str
    digest: str
    passages: Sequence[Passage]
    vectors: NDArray[np.float32]  # [passage, width]
    whole: bool


class IndexRows:
    """The rows of an index on disk."""

    def __init__(self, folder: Path, header: dict[str, Any]) -> None:
        self.folder, self.header = folder, header
        self.read()

    @classmethod
    def create(cls, folder: Path, header: Mapping[str, Any]) -> IndexRows:
        tidy(folder)
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise LoadError(f"{folder} exists and is not an index; name a new folder.")
        full_header = {"format": FORMAT, **header, "rows": "rows-1"}
        with atomic_folder(folder) as draft:
            (draft / HEADER).write_text(header_text(full_header), "utf-8")
        return cls(folder, full_header)

    @classmethod
    def open(cls, folder: Path) -> IndexRows:
        return cls(folder, read_header(folder))

    @staticmethod
    def there(folder: Path) -> bool:
        complete_pending_save(folder)
        return (folder / HEADER).is_file()

    def write_header(self) -> None:
        write_text(self.folder / HEADER, header_text(self.header))

    @property
    def path(self) -> Path:
        return rows_folder(self.folder, self.header)

    @property
    def width(self) -> int:
        return int(self.header["width"])

    @property
    def kept(self) -> np.dtype[Any]:
        kept: np.dtype[Any] = np.dtype(str(self.header["kept"]))
        return kept

    def read(self) -> None:
        """Reads the complete lines of the journal and checks that their rows exist."""
        self.entries: dict[str, IndexEntry] = {}
        self.total = self.journal = 0
        if not (self.path / JOURNAL).exists():
            return
        path, journal = self.path, self.path / JOURNAL
        lines = journal.read_bytes().splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            try:
                entry = parse_json(line if line.endswith(b"\n") else b"")
                for one in entry if isinstance(entry, list) else [entry]:
                    self._apply(one)
            except (ValueError, KeyError, TypeError):
                if number == len(lines):  # the write was interrupted there
                    break
                raise LoadError(
                    f"{journal} is damaged in line {number}; make the index again."
                ) from None
            self.journal += len(line)
        if not self.total:
            return
        sizes = {"vectors.bin": self.total * self.width * self.kept.itemsize}
        sizes["places.bin"] = self.total * 4 * 8
        for name, size in sizes.items():
            self._check_size(path / name, size)
        self._check_size(path / "texts.bin", self._text_bytes())

    def _check_size(self, path: Path, size: int) -> None:
        if not path.is_file() or not 0 <= size <= path.stat().st_size:
            raise LoadError(f"{path} is truncated; make the index again.")

    def _apply(self, line: Mapping[str, Any]) -> None:
        """Applies an entry of the journal."""
        file = str(line["file"])
        if line.get("gone"):
            self.entries.pop(file, None)
            return
        count, digest, whole = line["count"], str(line["digest"]), bool(line["whole"])
        if type(count) is not int or count < 0:
            raise ValueError(count)
        entry = self.entries.get(file)
        if entry is None or entry.digest != digest or entry.whole:
            entry = self.entries[file] = IndexEntry(digest)
        if count:
            entry.rows.append((self.total, count))
        entry.whole = whole
        self.total += count

    @property
    def live(self) -> int:
        """The number of passages in use."""
        return sum(entry.count for entry in self.entries.values())

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Locks the index for writing by this process."""
        with opened(self.folder / ".lock") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LoadError(
                    f"Another process is adding to {self.folder}; wait for it."
                ) from None
            self.header = IndexRows.open(self.folder).header
            self.read()
            remove_rows(self.folder, keep=self.path)
            yield

    def add(self, several: Sequence[Added]) -> None:
        """Adds all of them or, if interrupted, none."""
        starts = self._text_bytes()
        vectors, places, texts, lines = [], [], [], []
        for one in several:
            vectors.append(one.vectors.astype(self.kept).tobytes())
            for passage in one.passages:
                text = passage.text.encode("utf-8")
                places.append((passage.start, passage.end, starts, starts + len(text)))
                texts.append(text)
                starts += len(text)
            entry = {"file": one.file, "digest": one.digest}
            lines.append({**entry, "count": len(one.passages), "whole": one.whole})
        whole = {
            "vectors.bin": (self.total * self.width * self.kept.itemsize, b"".join(vectors)),
            "places.bin": (self.total * 4 * 8, np.array(places, "<i8").tobytes()),
            "texts.bin": (self._text_bytes(), b"".join(texts)),
        }
        for name, (at, content) in whole.items():
            self._append(name, at, content)
        self._tell(lines)

    def forget(self, files: Sequence[str]) -> None:
        """Removes files from the index."""
        if files:
            self._tell([{"file": file, "gone": True} for file in files])

    def _tell(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Appends a line to the journal and applies it."""
        if not lines:
            return
        text = json_line(lines)
        self._append(JOURNAL, self.journal, text)
        self.journal += len(text)
        for line in lines:
            self._apply(line)

    def _append(self, name: str, at: int, content: bytes) -> None:
        """Writes after the valid content; removes what an interrupted write has left there."""
        path = self.path / name
        try:
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                opened(path).close()
                sync_folder(path.parent)
                sync_folder(self.folder)
            with opened(path) as file:
                file.truncate(at)
                file.seek(at)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except GlassformerError:
            raise
        except OSError as error:
            raise LoadError(
                f"{path} could not be written ({error.strerror}); what was added before is "
                "complete, and the same command resumes."
            ) from None

    def _text_bytes(self) -> int:
        return int(self.places[-1, 3]) if self.total else 0

    @property
    def places(self) -> NDArray[np.int64]:
        return self._mapped("places.bin", "<i8", 4)

    @property
    def vectors(self) -> NDArray[Any]:
        return self._mapped("vectors.bin", self.kept, self.width)

    def _mapped(self, name: str, kind: Any, width: int) -> NDArray[Any]:
        if not self.total:
            return np.zeros((0, width), kind)
        return np.memmap(self.path / name, kind, "r", shape=(self.total, width))

    def ranges(self) -> list[tuple[int, int, str]]:
        """Returns (first row, count, file) of the rows in use, in order."""
        found = [(*rows, name) for name, entry in self.entries.items() for rows in entry.rows]
        return sorted(found)

    def compact(self) -> None:
        """Moves the rows in use to a new folder if most rows are not in use."""
        if self.total - self.live <= self.live:
            return
        new = IndexRows(self.folder, {**self.header, "rows": next_rows(self.folder)})
        held: list[Added] = []
        for file, entry in self.entries.items():
            ranges = entry.rows or [(0, 0)]
            for first, count in ranges:
                found = [self.passage(row) for row in range(first, first + count)]
                vectors = self.vectors[first : first + count].astype(np.float32)
                whole = entry.whole and first == ranges[-1][0]
                held.append(Added(file, entry.digest, found, vectors, whole))
            if sum(len(one.passages) for one in held) > MOVED or len(held) > MOVED:
                new.add(held)
                held = []
        new.add(held)
        new.write_header()
        self.header = new.header
        self.read()
        remove_rows(self.folder, keep=self.path)

    def passage(self, row: int) -> Passage:
        start, end, first, last = map(int, self.places[row])
        path = self.path / "texts.bin"
        try:
            with path.open("rb") as file:
                file.seek(first)
                most = os.fstat(file.fileno()).st_size
                size = min(max(0, last - first), most)
                return Passage(start, end, file.read(size).decode("utf-8"))
        except (OSError, ValueError):
            raise LoadError(f"{path} is damaged; make the index again.") from None

    def nearest(self, queries: NDArray[np.float32], top: int) -> list[list[tuple[float, int]]]:
        """Returns the `top` (cosine, row) pairs for each query of [query, width]."""
        there = [(first, count) for first, count, _ in self.ranges()]
        return nearest(self.vectors, there, queries, top)

    def files_of(self, rows: Sequence[int]) -> list[str]:
        ranges = self.ranges()
        firsts = [first for first, *_ in ranges]
        return [ranges[bisect_right(firsts, row) - 1][2] for row in rows]
