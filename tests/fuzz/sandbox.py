"""Runs one trial in a fork, with limits on memory and time, and classifies how it ended.

The child may use 64 MB plus ten times the size of its files beyond what its parent uses, and
`SECONDS` of CPU time. It may not start programs, open connections, or write outside its folder.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from glassformer.errors import LONGEST_MESSAGE, GlassformerError
from tests.fuzz.registry import SilentlyWrongError

Kind = Literal[
    "read",
    "refused",
    "traceback",
    "hang",
    "memory",
    "wrong",
    "message",
    "noise",
    "escaped",
    "killed",
]
GOOD: tuple[Kind, ...] = ("read", "refused")
SECONDS, WALL_SECONDS = 10, 300
BASE_BYTES, TIMES_SIZE = 64 * 2**20, 10
SLACK = 64 * 2**20  # what is reserved and not used; what is used is measured
OUT_OF_MEMORY = re.compile(r"\bmemory\b|alloc", re.IGNORECASE)
LEAVING = (
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.startfile",
    "subprocess.Popen", "socket.connect", "socket.getaddrinfo", "socket.bind", "ctypes.dlopen",
)  # fmt: skip
CHANGING = (
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.truncate",
    "os.symlink",
    "os.link",
)


@dataclass(frozen=True)
class Outcome:
    """How a trial ended; `seconds` is CPU time and `megabytes` the growth of the child."""

    kind: Kind
    message: str = ""
    seconds: float = 0.0
    megabytes: float = 0.0

    @property
    def good(self) -> bool:
        return self.kind in GOOD


def attempt(read: Callable[[Path], None], folder: Path) -> Outcome:
    """Reads the files of a folder in a fork."""
    reading, writing = os.pipe()
    stderr = folder.with_name("stderr")
    child = os.fork()
    if child == 0:
        os.close(reading)
        run(read, folder, writing, stderr)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status, usage = os.wait4(child, 0)
    seconds = round(usage.ru_utime + usage.ru_stime, 3)
    noise = stderr.read_bytes()[:4000].decode("utf-8", "replace")
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        hung = number in (signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL)
        kind: Kind = "hang" if hung else "killed"
        if "alloc" in noise:
            kind = "memory"
        return Outcome(kind, f"signal {number} {noise}".strip(), seconds)
    if not said:
        return Outcome("killed", f"status {status} {noise}", seconds)
    found = Outcome(**{**json.loads(said), "seconds": seconds})
    if noise and found.good:
        return Outcome("noise", noise, seconds, found.megabytes)
    return found


def run(read: Callable[[Path], None], folder: Path, writing: int, stderr: Path) -> None:
    """The child's part; it does not return."""
    handle = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    most = BASE_BYTES + TIMES_SIZE * size
    status = memory_status()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (status["VmData"] + most + SLACK,) * 2)
    signal.alarm(WALL_SECONDS)
    os.environ["HOME"] = str(folder)
    watch(folder)
    found = outcome_of(read, folder)
    grown = memory_status()["VmHWM"] - status["VmRSS"]
    if found.good and grown > most:
        found = Outcome("memory", f"{grown / 2**20:.0f} MB for {size} bytes; {found.message}")
    try:
        sys.stdout.flush()
        said = {**asdict(found), "megabytes": round(grown / 2**20, 1)}
        os.write(writing, json.dumps(said).encode())
    finally:
        os._exit(0)


def outcome_of(read: Callable[[Path], None], folder: Path) -> Outcome:
    try:
        read(folder)
    except GlassformerError as error:
        return judged(str(error), error)
    except SilentlyWrongError as error:
        return Outcome("wrong", f"{error}")
    except MemoryError:
        return Outcome("memory", last_lines())
    except Escape as error:
        return Outcome("escaped", f"{error} {last_lines()}")
    except BaseException as error:  # a panic of a Rust library is none of Exception
        kind: Kind = (
            "memory" if isinstance(error, RuntimeError) and "alloc" in str(error) else "traceback"
        )
        return Outcome(kind, last_lines())
    return Outcome("read")


def judged(message: str, error: GlassformerError) -> Outcome:
    """Returns whether the message of an error is one sentence of usable length."""
    if ran_out(error) or OUT_OF_MEMORY.search(message.partition("(")[2]):
        return Outcome("memory", message[:LONGEST_MESSAGE])
    one_line = len(message.splitlines()) == 1 and message.isprintable()
    if not one_line or not message.endswith((".", ")", "?", "!")) or len(message) > LONGEST_MESSAGE:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome("message", f"{where.filename}:{where.lineno}: {message[:300]!r}")
    return Outcome("refused", message)


def ran_out(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def last_lines() -> str:
    """Returns the exception and where it was raised, in our files and in the last one."""
    kind, error, trace = sys.exc_info()
    frames = traceback.extract_tb(trace)
    ours = [frame for frame in frames if "glassformer/" in frame.filename] or frames
    where = [ours[-1]] + ([frames[-1]] if frames[-1] is not ours[-1] else [])
    places = " ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in where)
    return f"{getattr(kind, '__name__', kind)} at {places}: {str(error)[:300]}"


def memory_status() -> dict[str, int]:
    """Returns the sizes of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return {
        name: int(rest.split()[0]) * 1024
        for name, _, rest in (line.partition(":") for line in lines)
        if name.startswith("Vm")
    }


class Escape(BaseException):
    """A trial did something outside of its folder."""


def watch(folder: Path) -> None:
    """Raises an error at a program, a connection, or a change outside of the folder."""
    inside = os.path.realpath(folder)

    def is_inside(path: Any) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return True  # a number of an open file
        real = os.path.realpath(os.fsdecode(path))
        return f"{real}/".startswith((f"{inside}/", "/dev/null/", "/proc/self/"))

    def hear(event: str, words: tuple[Any, ...]) -> None:
        if event.startswith(LEAVING) and not (event == "ctypes.dlopen" and words[0] is None):
            raise Escape(f"{event} {words!r:.200}")
        if event == "open":
            changes = words[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if changes and not is_inside(words[0]):
                raise Escape(f"open {words[0]!r:.200}")
        elif event in CHANGING and not is_inside(words[0]):
            raise Escape(f"{event} {words[0]!r:.200}")

    sys.addaudithook(hear)
