"""Fault injection: a writer runs while one of its operations on files fails.

A `Writer` makes an old state in a folder, writes a new one over it, and reads the state. `attempt`
runs it with a fault at the n-th operation (a rename, an unlink, a folder made or removed, a file
opened to write, a write, a truncation, a sync). "error" lets that one fail, after half of it where
it writes. "power" lets that one and all that follow fail, so that nothing is cleaned up, and then
takes away what was written and not synced. A signal's name sends it to this process before the
operation. A rename of a file, or of a folder with a file, that was written and not synced is
recorded. `WRITERS` holds the registered ones, which tests/storage/test_faults.py runs over; a new
writer is a function under `@writer`.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
from safetensors import SafetensorError

from glassformer.errors import GlassformerError

Fault = Literal["none", "error", "power", "SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"]
CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
EVENTS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate")
ELSEWHERE = ("/dev/", "/proc/")


@dataclass(frozen=True)
class Writer:
    """`old` makes the first state below an empty folder, `write` the second over it; `read` gives
    the state, as Glassformer reads it, and `other`, as another program does, which may fail."""

    name: str
    old: Callable[[Path], Any]
    write: Callable[[Path], Any]
    read: Callable[[Path], Any]
    other: Callable[[Path], Any] | None = None


@dataclass(frozen=True)
class Outcome:
    """`message` is that of a GlassformerError; `outside` are files that were written elsewhere;
    `unsynced` are renames of what was written and not synced."""

    operations: list[str]
    message: str | None
    outside: list[str]
    unsynced: list[str]
    finished: bool


WRITERS: dict[str, Writer] = {}


def writer(
    name: str,
    old: Callable[[Path], Any],
    read: Callable[[Path], Any],
    other: Callable[[Path], Any] | None = None,
) -> Callable[[Callable[[Path], Any]], Callable[[Path], Any]]:
    def register(write: Callable[[Path], Any]) -> Callable[[Path], Any]:
        WRITERS[name] = Writer(name, old, write, read, other)
        return write

    return register


class PowerCut(BaseException):
    """No handler of errors catches it."""


def attempt(work: Callable[[], Any], place: Path, fault: Fault = "none", at: int = 0) -> Outcome:
    """Runs `work`, which writes below `place`."""
    message, finished = None, False
    with Faults(place, fault, at) as faults:
        try:
            work()
            finished = True
        except GlassformerError as error:
            message = str(error)
        except PowerCut:
            pass
    if fault == "power":
        faults.lose()
    return Outcome(faults.operations, message, faults.outside, faults.unsynced, finished)


_current: Faults | None = None


def _hear(event: str, words: tuple[Any, ...]) -> None:
    if _current is not None:
        _current.hear(event, words)


sys.addaudithook(_hear)  # there is no way to remove one


class Faults:
    def __init__(self, place: Path, fault: Fault, at: int) -> None:
        self.place, self.fault, self.at = os.path.realpath(place), fault, at
        self.operations: list[str] = []
        self.outside: list[str] = []
        self.unsynced: list[str] = []
        self.injecting = False
        self.synced: dict[str, int] = {}  # of files that are written: the bytes that are safe

    def __enter__(self) -> Faults:
        global _current
        self.real = io.open, os.fsync, safetensors.torch.serialize_file
        self.real_open, self.real_fsync, self.real_serialize = self.real
        builtins.open = io.open = self.open
        os.fsync, safetensors.torch.serialize_file = self.fsync, self.serialize
        _current = self
        return self

    def __exit__(self, *why: Any) -> None:
        global _current
        _current = None
        io.open, os.fsync, safetensors.torch.serialize_file = self.real
        builtins.open = self.real_open

    def lose(self) -> None:
        for path, safe in self.synced.items():
            if os.path.isfile(path):
                os.truncate(path, min(safe, os.path.getsize(path)))

    def operation(self, what: str, path: Any, half: Callable[[], Any] = lambda: None) -> None:
        """Fails if it is this one's turn; `half` is what has happened by then."""
        path = os.fsdecode(path)
        if self.is_no_file(path):
            return
        self.check(what, path)
        self.operations.append(f"{what} {path}")
        number = len(self.operations)
        if number == self.at and self.fault in ("error", "power"):
            self.injecting = True
            half()
            self.injecting = False
        if number >= self.at and self.fault == "power":
            raise PowerCut
        if number == self.at and self.fault.startswith("SIG"):
            os.kill(os.getpid(), signal.Signals[self.fault])
        if number == self.at and self.fault == "error":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def check(self, what: str, path: str) -> None:
        if not self.is_inside(path):
            self.outside.append(f"{what} {path}")

    def is_inside(self, path: str) -> bool:
        return f"{path}/".startswith(f"{self.place}/")

    def is_no_file(self, path: str) -> bool:
        return not self.is_inside(path) and path.startswith(ELSEWHERE)

    def hear(self, event: str, words: tuple[Any, ...]) -> None:
        if self.injecting:
            return
        if event == "open":
            path, _, flags = words
            if flags & CHANGING and not isinstance(path, int):
                where = _absolute(path, -1)
                if not flags & os.O_NOFOLLOW:
                    where = os.path.realpath(where)
                if not self.is_no_file(where) and not os.path.isdir(where):  # a file without name
                    size = os.path.getsize(where) if os.path.exists(where) else 0
                    self.operation("open", where)
                    self.synced.setdefault(where, 0 if flags & os.O_TRUNC else size)
        elif event == "os.rename":
            source, target = _absolute(words[0], words[2]), _absolute(words[1], words[3])
            self.check("rename", source)
            self.operation("rename", target)
            if any(_moved(path, source, target) != path for path in self.synced):
                self.unsynced.append(f"{source} to {target}")
            self.synced = {_moved(path, source, target): n for path, n in self.synced.items()}
        elif event in EVENTS:
            named = words[:2] if event in ("os.link", "os.symlink") else words[:1]
            has_handle = isinstance(words[-1], int) and event != "os.truncate"
            handle = words[-1] if has_handle else -1
            path = _absolute(named[-1], handle)
            self.operation(event.removeprefix("os."), path)
            self.synced.pop(path, None)

    def open(self, file: Any, mode: str = "r", *words: Any, **named: Any) -> Any:
        stream = self.real_open(file, mode, *words, **named)
        if not set(mode) & set("wax+") or not os.fstat(stream.fileno()).st_nlink:
            return stream  # to read, or a file without a name
        return Stream(stream, self)

    def fsync(self, handle: Any) -> None:
        number = handle if isinstance(handle, int) else handle.fileno()
        path = os.readlink(f"/proc/self/fd/{number}")
        self.operation("fsync", path)
        self.real_fsync(handle)
        self.synced.pop(path, None)

    def serialize(self, tensors: Any, path: Any, metadata: Any = None) -> None:
        where = os.path.realpath(path)
        self.real_serialize(tensors, path, metadata=metadata)
        self.synced[where] = 0
        try:
            self.operation("write", where, lambda: os.truncate(where, os.path.getsize(where) // 2))
        except OSError as error:
            raise SafetensorError(f"Error while serializing: I/O error: {error.strerror}") from None


class Stream:
    """A file that was opened to write."""

    def __init__(self, stream: Any, faults: Faults) -> None:
        self._stream, self._faults = stream, faults
        self._path = os.readlink(f"/proc/self/fd/{stream.fileno()}")

    def write(self, content: Any) -> Any:
        def half() -> None:
            self._stream.write(content[: len(content) // 2])
            self._stream.flush()

        self._faults.operation("write", self._path, half)
        if self._path not in self._faults.synced:
            self._faults.synced[self._path] = os.path.getsize(self._path)
        return self._stream.write(content)

    def truncate(self, size: int) -> Any:
        self._faults.operation("truncate", self._path)
        self._stream.flush()
        safe = self._faults.synced.get(self._path, os.path.getsize(self._path))
        self._faults.synced[self._path] = min(safe, size)
        return self._stream.truncate(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *why: Any) -> Any:
        return self._stream.__exit__(*why)


def _absolute(path: Any, handle: int) -> str:
    if isinstance(path, int):  # an open file
        return os.readlink(f"/proc/self/fd/{path}")
    base = os.readlink(f"/proc/self/fd/{handle}") if handle >= 0 else os.getcwd()
    folder, name = os.path.split(os.path.join(base, os.fsdecode(path)))
    return os.path.join(os.path.realpath(folder), name)


def _moved(path: str, source: str, target: str) -> str:
    if path == source or path.startswith(f"{source}/"):
        return target + path[len(source) :]
    return path
