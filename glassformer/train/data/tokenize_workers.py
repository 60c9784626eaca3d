"""Records become examples, here or in processes of their own.

A worker is a plain Python process at the other end of two pipes. Unlike one of `multiprocessing` it
does not run the caller's script again, and it ends when the caller is gone, killed or not. Through
the pipes goes pickle, between our own processes only.
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
from glassformer.errors import GlassformerError
from glassformer.train.data.files import RecordError
from glassformer.train.data.memmap_dataset import ExampleBlock, block_of
from glassformer.train.objectives.objective import Example, Objective, Record


def prepared(
    objective: Objective, records: Iterable[Record | RecordError], skip: bool
) -> ExampleBlock:
    """A record that cannot be used stops everything, or is left out where `skip` says so."""
    examples: list[Example] = []
    begins: list[bool] = []
    skipped: list[str] = []
    records = list(records)
    objective.foresee([record for record in records if not isinstance(record, RecordError)])
    for record in records:
        try:
            if isinstance(record, RecordError):
                raise record
            made = list(objective.prepare(record))
        except GlassformerError as error:
            if isinstance(record, RecordError):
                said, refused = error, record.refused()
            else:
                said = refused = _placed(error, record)
            if not skip:
                raise refused from None
            skipped.append(str(said))
            continue
        examples += made
        whole = bool(record.get("begins", True))
        begins += [whole or place > 0 for place in range(len(made))]
    return block_of(examples, begins, skipped, objective.fields)


def _placed(error: GlassformerError, record: Record) -> GlassformerError:
    """The same, with the record's place, if it does not say it."""
    where = str(record.get("where", "A record"))
    return error if where in str(error) else GlassformerError(f"{where}: {error}")


class TokenizeWorker:
    """A process that prepares blocks of records, one at a time."""

    def __init__(self, objective: bytes) -> None:
        paths = [path or os.getcwd() for path in sys.path]
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the caller, who ends this one
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
                "with data.processes."
            ) from None
        if isinstance(answer, ExampleBlock):
            return answer
        kind, said = answer
        raise GlassformerError(said) if kind == "said" else RuntimeError(said)

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.communicate()

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()


def packed(objective: Objective) -> bytes | None:
    """The objective for other processes, its nets and weights left at home: to prepare is to read
    texts. None where it cannot travel, as when its class stands in the caller's own script."""
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
    """What stands where a net or a tensor was."""


def serve() -> None:
    """The other end of the pipes."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    objective = pickle.load(source)
    while True:
        try:
            records, skip = pickle.load(source)
        except EOFError:
            return
        answer: ExampleBlock | tuple[str, str]
        try:
            answer = prepared(objective, records, skip)
        except GlassformerError as error:
            answer = "said", str(error)
        except Exception:
            answer = "raised", traceback.format_exc()
        pickle.dump(answer, sink)
        sink.flush()
