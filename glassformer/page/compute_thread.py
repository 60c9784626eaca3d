"""A single compute thread: requests of several tabs run in order, and torch keeps its cores."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


class ComputeThread:
    """Runs jobs one at a time in a background thread."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._closed = False
        self._thread = Thread(target=self._work, name="glassformer page", daemon=True)
        self._thread.start()

    def close(self, patience: float) -> bool:
        """Starts no more jobs; returns whether the running one ended within `patience` seconds."""
        self._closed = True
        self._jobs.put((Future(), lambda: None))
        self._thread.join(patience)
        return not self._thread.is_alive()

    def do(self, job: Callable[[], Result]) -> Result:
        """Queues a job, waits for it and returns its result."""
        future: Future[Result] = Future()
        self._jobs.put((future, job))
        return future.result()

    def _work(self) -> None:
        while not self._closed:
            future, job = self._jobs.get()
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)
