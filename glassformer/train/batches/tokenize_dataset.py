"""Reads and tokenizes the files of a split once, and caches the result on disk.

The cache is reused if nothing has changed.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from glassformer.data.data_config import DataSettings
from glassformer.data.record import Record, RecordError
from glassformer.data.records import Records
from glassformer.errors import GlassformerError, LoadError
from glassformer.storage.files import open_plain
from glassformer.storage.folders import atomic_folder
from glassformer.train.batches.memmap_dataset import (
    HEADER,
    ExampleBlock,
    MemmapDataset,
    MemmapWriter,
)
from glassformer.train.batches.tokenize_workers import TokenizeWorker, prepared
from glassformer.train.batches.worker_process import available_cores, without_weights
from glassformer.train.objectives.objective import Objective

VERSION = 2
"""Version of the file format and of the readers; a new one invalidates all caches."""

READING = (
    *("format", "encoding", "on_error", "columns", "document_boundary"),
    *("column_names", "delimiter", "quoting", "word_column", "tag_column"),
)
"""Settings that affect what is stored."""

BLOCK_BYTES = 2**18
BLOCK_RECORDS = 1000
WORTH_A_PROCESS = 2**24
"""Bytes per worker process.

A process takes seconds to start, in which this one reads as much, and tokenizers that receive texts
in advance use all cores anyway.
"""

Progress = Callable[[int, int], None]
"""Called with the number of bytes prepared so far and the total."""


def prepare(
    settings: DataSettings,
    split: str,
    objective: Objective,
    cache: str | Path,
    *,
    about: Mapping[str, Any],
    seed: int = 0,
    progress: Progress | None = None,
) -> MemmapDataset:
    """Returns the examples of a split, prepared now or taken from the cache.

    Processes that need the same dataset at the same time wait for the first to write it.

    Args:
        settings: The [data] table.
        split: "train", "validation" or "test".
        objective: Converts records to examples.
        cache: Folder of the cache.
        about: Everything else that affects what the objective makes of a record, as JSON values:
            its name and options, the tokenizer's fingerprint, the model's context length.
        seed: Determines the held-out records if `settings.validation` is a fraction.
        progress: Called with the bytes done and the total.
    """
    records = Records(settings, split, seed)
    contents = _about(records, objective, about)
    key = hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()[:16]
    folder = Path(cache) / f"{split}-{key}"
    with _alone(folder):
        if not (folder / HEADER).is_file():
            with atomic_folder(folder) as draft:
                _write(draft, records, objective, contents, progress)
    store = MemmapDataset(folder)
    if not len(store):
        raise records.useless(store.skipped, store.reasons)
    return store


def _about(records: Records, objective: Objective, about: Mapping[str, Any]) -> dict[str, Any]:
    files = [(str(path.resolve()), path.stat()) for path in records.paths]
    settings = asdict(records.settings)
    return {
        "version": VERSION,
        # the change time, because an edit that restores the modification time is a change, too
        "files": [[path, s.st_size, s.st_mtime_ns, s.st_ctime_ns] for path, s in files],
        "reading": {name: settings[name] for name in READING},
        "held_out": [records.settings.held_out, records.split, records.seed]
        if records.settings.held_out
        else None,
        "fields": {name: np.dtype(kind).name for name, kind in objective.fields.items()},
        "about": about,
    }


def _write(
    folder: Path,
    records: Records,
    objective: Objective,
    about: Mapping[str, Any],
    progress: Progress | None,
) -> None:
    writer = MemmapWriter(folder, objective.fields)
    try:
        for done, block in _prepared(records, objective):
            writer.add(block)
            if progress is not None:
                progress(done, records.total)
        writer.close(about)
    except BaseException:
        writer.abandon()
        raise


def _prepared(records: Records, objective: Objective) -> Iterator[tuple[int, ExampleBlock]]:
    """Yields blocks in the order of the records, each with the number of bytes read so far."""
    skip = records.settings.on_error == "skip"
    most = objective.records_per_block or BLOCK_RECORDS
    wanted = records.settings.num_workers or available_cores()
    processes = min(wanted, records.total // WORTH_A_PROCESS)
    shared = without_weights(objective) if processes > 1 else None
    if shared is None:
        for done, block in _blocks(records, most):
            yield done, prepared(objective, block, skip)
        return
    idle: SimpleQueue[TokenizeWorker] = SimpleQueue()
    workers = [TokenizeWorker(shared) for _ in range(processes)]
    for worker in workers:
        idle.put(worker)

    def work(block: list[Record | RecordError]) -> ExampleBlock:
        worker = idle.get()
        try:
            return worker.prepared(block, skip)
        finally:
            idle.put(worker)

    waiting: deque[tuple[int, Future[ExampleBlock]]] = deque()
    pool = ThreadPoolExecutor(processes)
    try:
        for done, block in _blocks(records, most):
            waiting.append((done, pool.submit(work, block)))
            if len(waiting) > 2 * processes:
                first, future = waiting.popleft()
                yield first, future.result()
        for first, future in waiting:
            yield first, future.result()
    finally:
        for worker in workers:
            worker.kill()
        pool.shutdown(wait=True, cancel_futures=True)
        for worker in workers:
            worker.close()


def _blocks(records: Records, most: int) -> Iterator[tuple[int, list[Record | RecordError]]]:
    held: list[Record | RecordError] = []
    before = 0
    for record in records:
        held.append(record)
        if len(held) == most or records.done - before >= BLOCK_BYTES:
            before = records.done
            yield before, held
            held = []
    if held:
        yield records.total, held


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lets one process at a time into the context; the lock is released if the process dies."""
    try:
        import fcntl
    except ImportError:  # on Windows two runs may do the same work twice
        yield
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = open_plain(folder.parent / f"{folder.name}.lock", "a")
    except GlassformerError:  # a LoadError is an OSError
        raise
    except OSError as error:
        raise LoadError(
            f"Prepared data cannot be kept in {folder.parent} ({error.strerror}); name another "
            "folder as data.cache."
        ) from None
    with lock:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
