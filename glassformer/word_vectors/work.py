"""Pieces begun in order, by one thread or several that share the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Lock
from typing import TypeVar

from glassformer.word_vectors.corpus import Watch

Piece = TypeVar("Piece")
GLANCE = 0.1  # seconds between two looks at how far it is


def work(
    pieces: Iterable[Piece],
    do: Callable[[Piece], int],
    workers: int,
    watch: Watch,
) -> None:
    """`do` says how much it did. Ctrl-C ends the work after the pieces under way."""
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
