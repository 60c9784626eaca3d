"""A single compute thread: requests of several tabs run in order, and torch keeps its cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Condition, Thread
from typing import Any, Generic, TypeVar

import torch

from glassformer.inside.capture.cancellation import ProgressCallback, cancellable
from glassformer.page.limits import MAX_JOBS

Result = TypeVar("Result")


class JobCancelledError(Exception):
    """The job was cancelled: its client is gone or asked for it, or the server stops."""


class QueueFullError(Exception):
    """Too many jobs wait for the compute thread."""


class Job(Generic[Result]):
    """Work for the compute thread; `future` has its result.

    Args:
        work: The computation. It stops early at a `check_cancelled` or `report_progress`.
        on_progress: Called in the compute thread. A job that has it is long work: it runs after
            all others, and they interrupt it whenever it reports progress.
    """

    def __init__(
        self, work: Callable[[], Result], on_progress: ProgressCallback | None = None
    ) -> None:
        self.work, self.on_progress = work, on_progress
        self.future: Future[Result] = Future()
        self.cancelled = False

    def cancel(self) -> None:
        """Drops a waiting job; a running one ends at its next check."""
        self.cancelled = True
        self.future.cancel()

    def check(self) -> None:
        if self.cancelled:
            raise JobCancelledError


class ComputeThread:
    """Runs jobs one at a time in a background thread."""

    def __init__(self, capacity: int = MAX_JOBS) -> None:
        self.capacity = capacity
        self._short: deque[Job[Any]] = deque()
        self._long: deque[Job[Any]] = deque()
        self._running: list[Job[Any]] = []  # a long job, and the short one that interrupts it
        self._closed = False
        self._changed = Condition()
        self._thread = Thread(target=self._work, name="glassformer page", daemon=True)
        self._thread.start()

    def submit(
        self, work: Callable[[], Result], on_progress: ProgressCallback | None = None
    ) -> Job[Result]:
        """Queues a job.

        Raises:
            QueueFullError: if too many jobs are waiting.
            JobCancelledError: if the thread was closed.
        """
        job = Job(work, on_progress)
        with self._changed:
            for queue in (self._short, self._long):
                waiting = [one for one in queue if not one.cancelled]
                queue.clear()
                queue.extend(waiting)
            if self._closed:
                raise JobCancelledError
            if (count := len(self._short) + len(self._long)) >= self.capacity:
                raise QueueFullError(
                    f"{count} requests are waiting, which is the limit; try again later."
                )
            (self._short if on_progress is None else self._long).append(job)
            self._changed.notify()
        return job

    def close(self, patience: float) -> bool:
        """Cancels all jobs; returns whether the running one ended within `patience` seconds."""
        with self._changed:
            self._closed = True
            for job in (*self._short, *self._long, *self._running):
                job.cancel()
            self._changed.notify()
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._short or self._long)
                if self._closed:
                    return
                job = (self._short or self._long).popleft()
                self._running.append(job)
            self._run(job)

    def _run(self, job: Job[Any]) -> None:
        def progress(done: int, total: int | None) -> None:
            if job.on_progress is not None:
                job.on_progress(done, total)
                self._run_short_jobs()
                job.check()

        try:
            if job.future.set_running_or_notify_cancel():
                with cancellable(job.check, progress):
                    job.future.set_result(job.work())
        except BaseException as error:
            job.future.set_exception(error)
        finally:
            with self._changed:
                self._running.remove(job)

    def _run_short_jobs(self) -> None:
        """Runs the short jobs that wait now, between two parts of a long one."""
        with self._changed:
            waiting = len(self._short)
        for _ in range(waiting):
            with self._changed:
                if self._closed or not self._short:
                    return
                job = self._short.popleft()
                self._running.append(job)
            with torch.enable_grad():  # as outside of the long job, which may have disabled it
                self._run(job)
