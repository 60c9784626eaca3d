"""Worker processes: plain Python processes that answer requests through two pipes.

Unlike a `multiprocessing` worker, such a process does not run the caller's script again, and it
ends when the caller does, even if that was killed. The pipes carry pickle and the bytes of tensors,
between our own processes only.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import IO, Any

import torch

from glassformer.core import Transformer
from glassformer.errors import LostProcessError


class WorkerProcess:
    """A process that runs a function of a module, which answers one request at a time.

    Args:
        serve: The function, such as "glassformer.train.batches.tokenize_workers:serve". It is
            called with the pipes from and to this process, the first of which begins with `state`.
        state: Pickled state.
        lost: What to say if the process dies.
    """

    def __init__(self, serve: str, state: bytes, lost: str) -> None:
        self._lost = lost
        module, function = serve.split(":")
        paths = [path or os.getcwd() for path in sys.path]
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"from {__name__} import connected; from {module} import {function} as serve; "
                "serve(*connected())",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pipesize=2**20,  # a batch, so that the reader seldom waits
            start_new_session=True,  # Ctrl-C goes to the caller, which ends this process
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "OMP_NUM_THREADS": "1",
                "TOKENIZERS_PARALLELISM": "false",
                "CUDA_VISIBLE_DEVICES": "",
            },
        )
        self._state: bytes | None = state

    def ask(self, request: Any, read: Callable[[IO[bytes]], Any] = pickle.load) -> Any:
        """Sends a request and returns what `read` reads of the answer.

        Raises the answer if it is an error.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            if self._state is not None:  # here, because a full pipe waits for the process
                self._process.stdin.write(self._state)
                self._state = None
            pickle.dump(request, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
            answer = read(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            raise LostProcessError(self._lost) from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.communicate()


def connected() -> tuple[IO[bytes], IO[bytes]]:
    """Returns the pipes of a worker process: from the caller and to it."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that output of libraries does not mix with answers
    torch.set_num_threads(1)
    return source, sink


def available_cores() -> int:
    """Returns the number of cores for this process; those of a machine are shared by its ranks."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def without_weights(value: Any) -> bytes | None:
    """Returns a pickled value without its networks and tensors.

    Returns None if it cannot be pickled, or only under the name of the caller's script, which a
    worker process does not run.
    """
    data = io.BytesIO()
    try:
        _Weightless(data, pickle.HIGHEST_PROTOCOL).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return data.getvalue()


class _Weightless(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Transformer | torch.Tensor):
            return _nothing, ()
        if getattr(type(value), "__module__", None) == "__main__":
            raise pickle.PicklingError("defined in the caller's script")
        return NotImplemented


def _nothing() -> None:
    """Unpickles to None in place of a network or a tensor."""
