"""Converts records to examples, in this process or in worker processes."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterable
from typing import IO

from glassformer.data.record import Record, RecordError, refused
from glassformer.errors import GlassformerError
from glassformer.train.batches.memmap_dataset import ExampleBlock, block_of
from glassformer.train.batches.worker_process import WorkerProcess
from glassformer.train.objectives.objective import Objective
from glassformer.train.objectives.rows import Example
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
        self._process = WorkerProcess(
            f"{__name__}:serve",
            objective,
            "A process that prepares the data has died, maybe for want of memory; try fewer with "
            "data.num_workers.",
        )

    def prepared(self, records: list[Record | RecordError], skip: bool) -> ExampleBlock:
        block: ExampleBlock = self._process.ask((records, skip))
        return block

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.close()


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Runs the worker's loop: reads blocks of records and writes prepared examples."""
    objective = pickle.load(source)
    while True:
        try:
            records, skip = pickle.load(source)
        except EOFError:
            return
        answer: ExampleBlock | Exception
        try:
            answer = prepared(objective, records, skip)
        except GlassformerError as error:
            answer = error
        except Exception:
            answer = RuntimeError(traceback.format_exc())
        pickle.dump(answer, sink)
        sink.flush()
