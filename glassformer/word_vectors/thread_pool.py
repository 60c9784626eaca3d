"""Thread pool that processes chunks in order, with tables shared by the threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Lock
from typing import TypeVar

from glassformer.word_vectors.corpus import Watch

Piece = TypeVar("Piece")
GLANCE = 0.1  # seconds between progress updates


def process_chunks(
    pieces: Iterable[Piece],
    do: Callable[[Piece], int],
    workers: int,
    watch: Watch,
) -> None:
    """Processes all chunks. Ctrl-C stops after the chunks in progress.

    Args:
        pieces: Chunks of work.
        do: Processes a chunk and returns the amount of work done.
        workers: Number of threads.
        watch: Called with the amount of work done so far.
    """
    left, lock, done, stopped = iter(pieces), Lock(), 0, False

    def worker() -> None:
        nonlocal done
        while not stopped:
            with lock:
                piece = next(left, None)
            if piece is None:
                return
            size = do(piece)
            with lock:
                done += size

    with ThreadPoolExecutor(workers) as pool:
        try:
            waiting = {pool.submit(worker) for _ in range(workers)}
            while waiting:
                over, waiting = wait(waiting, GLANCE)
                for one in over:
                    one.result()
                watch(done)
        finally:
            stopped = True
