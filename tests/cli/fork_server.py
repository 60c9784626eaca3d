"""Runs command lines in forks of a process that has imported torch and the package once.

`ForkServer` starts this file as a process and sends it a JSON line a command. A child runs it, with
standard input and standard error at a pseudo-terminal, or not; the exit code comes back.
`sandboxed` records its operations on files, and lets one of them fail (tests/faults.py).
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLOSED = "closed"  # in the place of a path: a pipe that nobody reads
FULL = "/dev/full"


@dataclass(frozen=True)
class Ended:
    """`operations` are those on files that a sandboxed command has done, `outside` those of them
    outside of its place, and `unsynced` renames of what was not synced; None if it was killed."""

    code: int
    stdout: bytes
    stderr: str
    operations: list[str] | None = None
    outside: list[str] | None = None
    unsynced: list[str] | None = None


class ForkServer:
    def __init__(self, **environment: str) -> None:
        plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**plain, "OMP_NUM_THREADS": "1", "TERM": "xterm-256color", **environment},
        )

    def close(self) -> None:
        self._server.communicate()

    def run(
        self,
        *words: str,
        cwd: Path,
        stdout: str,
        terminal: bool = True,
        largest: int | None = None,
        **environment: str,
    ) -> Ended:
        """`stdout` is a path, "pipe" or CLOSED. Standard error is a terminal, or a file in `cwd`,
        which is made if it is not there. To write more than the `largest` number of bytes to a file
        is an error."""
        cwd.mkdir(parents=True, exist_ok=True)
        path = cwd / "stdout" if stdout == "pipe" else Path(stdout)
        if stdout == "pipe":
            os.mkfifo(path)
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if stdout == "pipe" else None
        ours, theirs = pty.openpty()
        stderr = os.ttyname(theirs) if terminal else str(cwd / "stderr")
        request: dict[str, Any] = {
            "words": words,
            "cwd": str(cwd),
            "stdout": str(path),
            "stderr": stderr,
        }
        request |= {"environment": environment, "largest": largest}
        written, said = self._ask(request, [ours] if reading is None else [ours, reading])
        for handle in (ours, theirs, *([] if reading is None else [reading])):
            os.close(handle)
        if reading is None and path.is_file():
            written = path.read_bytes()
        if not terminal:
            said = Path(stderr).read_bytes()
        code = int(self._code)
        return Ended(code, written, said.decode().replace("\r\n", "\n"))

    def sandboxed(
        self,
        *words: str,
        cwd: Path,
        place: Path,
        fault: str = "none",
        at: int = 0,
        unprivileged: bool = False,
        **environment: str,
    ) -> Ended:
        """Runs a command in a sandbox. Its outputs are in files of a temporary folder.

        Args:
            words: The words of the command.
            cwd: The working directory.
            place: The folder in which it may write.
            fault: What happens at an operation on files: "error", "power" or a signal's name.
            at: The number of that operation.
            unprivileged: Whether permissions of files are checked, also for root.
            environment: Environment variables.
        """
        with tempfile.TemporaryDirectory() as folder:
            aside = Path(folder)
            request = {
                "words": words,
                "cwd": str(cwd),
                "stdout": str(aside / "stdout"),
                "stderr": str(aside / "stderr"),
                "environment": environment,
                "largest": None,
                "unprivileged": unprivileged,
                "sandbox": {
                    "place": str(place),
                    "fault": fault,
                    "at": at,
                    "report": str(aside / "report"),
                },
            }
            self._ask(request, [])
            report = aside / "report"
            told = json.loads(report.read_text()) if report.exists() else {}
            return Ended(
                int(self._code),
                (aside / "stdout").read_bytes(),
                (aside / "stderr").read_text("utf-8", "replace"),
                **told,
            )

    def _ask(self, request: dict[str, Any], handles: list[int]) -> tuple[bytes, bytes]:
        """What comes out of the pipe, and of the terminal, until the command has ended."""
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        self._server.stdin.flush()
        ended = self._server.stdout.fileno()
        found = dict.fromkeys(handles, b"")
        self._code = b""
        while True:
            ready = select.select([*handles, ended], [], [], 0 if self._code else 120)[0]
            assert ready or self._code, f"{request['words']} does not end"
            pieces = {handle: os.read(handle, 65536) for handle in ready if handle != ended}
            for handle, piece in pieces.items():
                found[handle] += piece
            if ended in ready:
                self._code = self._server.stdout.readline()
                assert self._code, "the server has ended"
            if self._code and not any(pieces.values()):
                written = found[handles[-1]] if len(handles) > 1 else b""
                return written, found[handles[0]] if handles else b""


# --- the server's side ---------------------------------------------------------------------------


def serve() -> None:
    import_all()
    tempfile.gettempdir()  # finds the folder by writing to it, once in a process
    gc.freeze()  # so that a child copies little
    while line := sys.stdin.readline():
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            run(request)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def import_all() -> None:
    import transformers  # noqa: F401
    from transformers import GPT2LMHeadModel  # noqa: F401

    import glassformer.cli.input_records
    import glassformer.evaluate.evaluate
    import glassformer.inside
    import glassformer.loading
    import glassformer.page
    import glassformer.train.trainer  # noqa: F401


def run(request: dict[str, Any]) -> None:
    """Ends as Python does, but without taking all modules apart: that takes seconds."""
    from glassformer.cli import main

    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    os.setsid()
    stderr = os.open(request["stderr"], os.O_RDWR | os.O_CREAT)
    if request["stdout"] == CLOSED:
        reading, stdout = os.pipe()
        os.close(reading)
    else:
        stdout = os.open(request["stdout"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    stdin = stderr if os.isatty(stderr) else os.open(os.devnull, os.O_RDONLY)
    for number, handle in enumerate((stdin, stdout, stderr)):
        os.dup2(handle, number)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(
        2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1
    )
    if request["largest"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest"],) * 2)
    if request.get("unprivileged"):
        drop_privileges()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    sys.argv = ["glassformer", *request["words"]]
    code: Any = 1

    def work() -> None:
        nonlocal code
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        except Exception:
            traceback.print_exc()
        except KeyboardInterrupt:
            traceback.print_exc()

    sandbox = request.get("sandbox")
    if sandbox is None:
        work()
    else:
        from faults import attempt

        outcome = attempt(work, Path(sandbox["place"]), sandbox["fault"], sandbox["at"])
        told = {name: getattr(outcome, name) for name in ("operations", "outside", "unsynced")}
        Path(sandbox["report"]).write_text(json.dumps(told))
    try:
        sys.stdout.flush()
    except OSError as error:
        print(f"Exception ignored: {error}", file=sys.stderr)
        code = 120
    os._exit(code)


def drop_privileges() -> None:
    """Gives up root's capabilities, so that permissions of files are checked."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3 of the interface, this process
    if libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "capset")


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parent.parent))
    sys.dont_write_bytecode = True  # which would be a write
    serve()
