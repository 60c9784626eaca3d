"""Converts records to examples, in this process or in worker processes.

A worker is a plain Python process connected by two pipes. Unlike a `multiprocessing` worker, it
does not run the caller's script again, and it ends when the caller does, even if that was killed.
The pipes carry pickle, between our own processes only.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Iterable
from typing import Any

import torch

from glassformer.core import Transformer
from glassformer.data.record import Record, RecordError, refused
from glassformer.errors import GlassformerError
from glassformer.train.batches.memmap_dataset import ExampleBlock, block_of
from glassformer.train.objectives.objective import Example, Objective
from glassformer.train.objectives.tally import Tally


def prepared(
    objective: Objective, records: Iterable[Record | RecordError], skip: bool
) -> ExampleBlock:
    """Converts records to a block of examples.

    Args:
        objective: The objective.
        records: Records, or errors in place of malformed ones.
        skip: Whether to skip records that cannot be used instead of raising an error.
    """
    examples: list[Example] = []
    begins: list[bool] = []
    skipped: list[str] = []
    tally = Tally()
    counting = [part.tally for part in objective.modules() if isinstance(part, Objective)]
    for counts in counting:
        counts.reset()  # an error may have ended an earlier call
    records = list(records)
    objective.lookahead_tokenize(
        [record for record in records if not isinstance(record, RecordError)]
    )
    for record in records:
        try:
            if isinstance(record, RecordError):
                raise record
            made = list(objective.prepare(record))
        except GlassformerError as error:
            known: Record = {} if isinstance(record, RecordError) else record
            if not skip:
                raise refused(error, known) from None
            own = isinstance(error, RecordError)
            skipped.append(str(error if own else refused(error, known)))
            for counts in counting:
                counts.reset()
            continue
        for counts in counting:
            tally.add(counts)
            counts.reset()
        tally.rows += 1
        tally.unused += not made
        examples += made
        begins_document = bool(record.get("begins", True))
        begins += [begins_document or index > 0 for index in range(len(made))]
    return block_of(examples, begins, skipped, objective.fields, tally)


class TokenizeWorker:
    """A process that prepares blocks of records, one at a time."""

    def __init__(self, objective: bytes) -> None:
        paths = [path or os.getcwd() for path in sys.path]
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C goes to the caller, which ends this process
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "OMP_NUM_THREADS": "1",
                "TOKENIZERS_PARALLELISM": "false",
            },
        )
        self._send(objective)

    def prepared(self, records: list[Record | RecordError], skip: bool) -> ExampleBlock:
        try:
            self._send(pickle.dumps((records, skip)))
            assert self._process.stdout is not None
            answer = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            raise GlassformerError(
                "A process that prepares the data has died, maybe for want of memory; try fewer "
                "with data.num_workers."
            ) from None
        if isinstance(answer, ExampleBlock):
            return answer
        raise answer if isinstance(answer, GlassformerError) else RuntimeError(answer)

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.communicate()

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()


def packed(objective: Objective) -> bytes | None:
    """Returns the pickled objective without networks and weights, which tokenization does not need.

    Returns None if it cannot be pickled, for example because its class is defined in the caller's
    script.
    """
    if any(type(part).__module__ == "__main__" for part in objective.modules()):
        return None
    data = io.BytesIO()
    try:
        _Weightless(data).dump(objective)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return data.getvalue()


class _Weightless(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Transformer | torch.Tensor):
            return _nothing, ()
        return NotImplemented


def _nothing() -> None:
    """Unpickles to None in place of a network or a tensor."""


def serve() -> None:
    """Runs the worker's loop: reads blocks of records from stdin and writes results to stdout."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that output of libraries does not mix with results
    objective = pickle.load(source)
    while True:
        try:
            records, skip = pickle.load(source)
        except EOFError:
            return
        answer: ExampleBlock | GlassformerError | str
        try:
            answer = prepared(objective, records, skip)
        except GlassformerError as error:
            answer = error
        except Exception:
            answer = traceback.format_exc()
        pickle.dump(answer, sink)
        sink.flush()
