"""Prepares the batches of the next steps in a thread, or in processes.

Python runs one thread at a time, so a thread that makes batches would delay the one that gives the
GPU its work. Processes do not: the threads here only wait for their pipes.
"""

from __future__ import annotations

import pickle
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import IO, Any

import torch
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.train.batches.batch_maker import BatchMaker, Request
from glassformer.train.batches.worker_process import WorkerProcess, without_weights
from glassformer.train.objectives.objective import TrainingBatch

LOST = (
    "A process that makes batches has died, maybe for want of memory; try fewer with "
    "data.num_workers."
)


class BatchFeed:
    """The batches of a step, of which those of the next ones are prepared in advance.

    Args:
        maker: Makes the batches.
        ahead: Number of steps to prepare in advance, and with processes for each of them.
        workers: Number of processes; 0 for a thread of this process.
    """

    def __init__(self, maker: BatchMaker, ahead: int, workers: int = 0) -> None:
        self._maker = maker
        self._state = without_weights(maker) if workers else None
        self._workers = workers if self._state is not None else 0
        self._ahead = ahead * max(1, self._workers)
        self._threads: ThreadPoolExecutor | None = None
        self._processes: list[WorkerProcess] = []
        self._idle: SimpleQueue[WorkerProcess] = SimpleQueue()
        self._coming: dict[Request, Future[list[TrainingBatch]]] = {}

    def batches(self, request: Request) -> list[TrainingBatch]:
        """Returns the batches of a step.

        Processes start slowly, so what none of them has begun is made here.
        """
        self._start()
        step, rank, world = request
        found = self._coming.pop(request, None)
        wanted = [(number, rank, world) for number in range(step + 1, step + self._ahead + 1)]
        for late in self._coming.keys() - set(wanted):
            self._coming.pop(late).cancel()
        assert self._threads is not None
        if found is None and not self._processes:
            found = self._threads.submit(self._made, request)
        for each in wanted:
            if each not in self._coming:
                self._coming[each] = self._threads.submit(self._made, each)
        return self._maker.batches(request) if found is None else found.result()

    def close(self) -> None:
        """Stops the work ahead; the feed can still be used afterward."""
        for process in self._processes:
            process.kill()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        for process in self._processes:
            process.close()
        self._threads, self._coming, self._processes = None, {}, []

    def _start(self) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(max(1, self._workers), "glassformer-data")
            self._idle = SimpleQueue()
            if self._state is not None:
                serve = f"{__name__}:serve"
                self._processes = [
                    WorkerProcess(serve, self._state, LOST) for _ in range(self._workers)
                ]
            for process in self._processes:
                self._idle.put(process)

    def _made(self, request: Request) -> list[TrainingBatch]:
        if not self._processes:
            return self._maker.batches(request)
        process = self._idle.get()
        try:
            made: list[TrainingBatch] = process.ask(request, _read)
            return made
        finally:
            self._idle.put(process)


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Runs the loop of a process that makes batches."""
    maker: BatchMaker = pickle.load(source)
    while True:
        try:
            request = pickle.load(source)
        except EOFError:
            return
        answer: Any
        tensors: list[Tensor] = []
        try:
            answer = [_described(batch, tensors) for batch in maker.batches(request)]
        except GlassformerError as error:
            answer = error
        except Exception:
            answer = RuntimeError(traceback.format_exc())
        pickle.dump(answer, sink, pickle.HIGHEST_PROTOCOL)
        for tensor in tensors:
            sink.write(tensor.contiguous().numpy().data)
        sink.flush()


def _described(batch: TrainingBatch, tensors: list[Tensor]) -> tuple[Any, ...]:
    """Returns a batch with the shapes and dtypes of its tensors, which are appended to a list."""
    parts = []
    for part in (batch.inputs, batch.targets):
        parts.append({name: (tuple(x.shape), x.dtype) for name, x in part.items()})
        tensors.extend(part.values())
    return (*parts, batch.counts, batch.tokens, batch.extra)


def _read(pipe: IO[bytes]) -> list[TrainingBatch] | Exception:
    """Reads what `serve` wrote, on a machine with a GPU into memory that it can copy from."""
    answer = pickle.load(pipe)
    if isinstance(answer, Exception):
        return answer
    pinned = torch.cuda.is_available()
    batches: list[TrainingBatch] = []
    for inputs, targets, *rest in answer:
        parts: list[dict[str, Tensor]] = []
        for part in (inputs, targets):
            filled: dict[str, Tensor] = {}
            for name, (shape, dtype) in part.items():
                filled[name] = torch.empty(shape, dtype=dtype, pin_memory=pinned)
                _fill(pipe, filled[name])
            parts.append(filled)
        batches.append(TrainingBatch(parts[0], parts[1], *rest))
    return batches


def _fill(pipe: IO[bytes], tensor: Tensor) -> None:
    if not tensor.numel():
        return
    data = tensor.view(-1).numpy().data.cast("B")
    done = 0
    while done < len(data):
        count: int = pipe.readinto(data[done:])  # type: ignore[attr-defined]  # of BufferedReader
        if not count:
            raise EOFError
        done += count
