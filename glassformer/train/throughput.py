"""Measures training speed and device utilization."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from glassformer.train.distributed import Worker
from glassformer.train.estimate import RunEstimate


class Throughput:
    """Measures the time of steps alone; it is paused during evaluation and saving."""

    def __init__(self, worker: Worker, estimate: RunEstimate, tokens: int) -> None:
        self._worker, self._estimate = worker, estimate
        self._tokens, self._idle = tokens, 0.0
        self._begun = self._since = time.perf_counter()

    def measure(self, tokens: int) -> dict[str, float]:
        """Returns the speed since the last call; `tokens` is the number of tokens read so far."""
        self._worker.synchronize()
        now = time.perf_counter()
        speed = (tokens - self._tokens) / max(now - self._since - self._idle, 1e-9)
        self._since, self._tokens, self._idle = now, tokens, 0.0
        return {
            "time": now - self._begun,
            "tokens_per_second": speed,
            "utilization": self._estimate.utilization(speed),
        }

    @contextmanager
    def paused(self) -> Iterator[None]:
        before = time.perf_counter()
        yield
        self._idle += time.perf_counter() - before
