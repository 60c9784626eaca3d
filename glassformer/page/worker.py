"""Page room, who computes: one thread, so that many tabs wait in line and torch keeps its cores."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


class Worker:
    """Ends with the program, in the middle of its work if need be."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        Thread(target=self._work, name="glassformer page", daemon=True).start()

    def do(self, job: Callable[[], Result]) -> Result:
        """Waits for its turn, and for the result."""
        future: Future[Result] = Future()
        self._jobs.put((future, job))
        return future.result()

    def _work(self) -> None:
        while True:
            future, job = self._jobs.get()
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)
