"""Training checkpoints: everything a run needs to resume bit-exactly, as safetensors and JSON.

A checkpoint is written under another name, synced to disk and renamed; only then are the files of
older ones removed. So the newest folder under a final name is always complete.
"""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.optim import Optimizer

from glassformer.errors import GlassformerError, LoadError
from glassformer.storage.files import sync_folder, write_synced
from glassformer.train.distributed import Worker
from glassformer.train.manifest import Manifest
from glassformer.train.optimizers import state_tensors
from glassformer.train.tensor_parallel import ShardPlan
from glassformer.train.weight_averaging import WeightAverage

STATE = "state"
NOTES = "notes.json"
STEP = re.compile(r"step-\d{10,}")
Tensors = dict[str, Tensor]


class CheckpointState:
    """The tensors of a run by name.

    These are trained weights and buffers, optimizer state and weight averages. Frozen weights are
    not saved; they keep the values that the model started with.
    """

    def __init__(
        self,
        task: nn.Module,
        optimizer: Optimizer,
        average: WeightAverage,
        place: Worker,
        arranged: ShardPlan,
    ) -> None:
        self._optimizer = optimizer
        self._average = average
        self._place = place
        self._arranged = arranged
        trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
        self._weights: Tensors = {}
        seen: set[int] = set()
        for name, tensor in task.state_dict(keep_vars=True).items():
            fixed = isinstance(tensor, nn.Parameter) and id(tensor) not in trained
            if id(tensor) not in seen and not fixed:  # tied weights are one tensor
                self._weights[name] = tensor
                seen.add(id(tensor))

    def tensors(self) -> Tensors:
        """Returns the live tensors of the run; loading into them in place restores the run."""
        parts = {
            "weights": self._weights,
            "optimizer": state_tensors(self._optimizer),
            "average": self._average.tensors,
        }
        return {
            f"{part}.{k}": t.detach() for part, named in parts.items() for k, t in named.items()
        }

    def save(self, files: Manifest, step: int, notes: Mapping[str, Any]) -> None:
        """Writes a checkpoint.

        Args:
            files: The manifest of the run folder.
            step: Number of steps done.
            notes: JSON values to store with the tensors.
        """
        text = json.dumps({"step": step, **notes}, indent=2) + "\n"
        with _whole(files, step, text, self._place) as draft, quietly():
            writer = HuggingFaceStorageWriter(str(draft), save_distributed=True)
            save(self._saved(), storage_writer=writer, **self._company())

    def load(self, folder: Path) -> dict[str, Any]:
        """Loads the newest checkpoint and returns its notes."""
        newest = checkpoints(folder)[-1]
        reader = HuggingFaceStorageReader(str(newest))
        wanted, stored = self.tensors(), reader.read_metadata().state_dict_metadata
        shapes = {k: s.size for k, s in stored.items() if isinstance(s, TensorStorageMetadata)}
        missing, unexpected = wanted.keys() - shapes.keys(), shapes.keys() - wanted.keys()
        mismatched = {n for n in wanted.keys() & shapes.keys() if wanted[n].shape != shapes[n]}
        if odd := sorted(missing | unexpected | mismatched):
            raise LoadError(
                f"The checkpoint {newest} is of another model or optimizer ({odd[0]}); --restart "
                "begins anew.",
                missing=sorted(missing),
                unexpected=sorted(unexpected),
                mismatched=sorted(mismatched),
            )
        loaded = self._saved()
        with quietly():
            load(loaded, storage_reader=reader, **self._company())
        for name, tensor in wanted.items():
            self._arranged.taken(_weight(name), tensor, loaded[name])
        notes: dict[str, Any] = json.loads((newest / NOTES).read_text("utf-8"))
        return notes

    def _saved(self) -> Tensors:
        return {k: self._arranged.saved(_weight(k), t) for k, t in self.tensors().items()}

    def _company(self) -> dict[str, Any]:
        group = self._place.patient
        return {"no_dist": True} if group is None else {"process_group": group}


def _weight(name: str) -> str:
    """Returns the name of the weight that a tensor of the state belongs to."""
    part, _, rest = name.partition(".")
    return rest.rpartition(".")[0] if part == "optimizer" else rest


def checkpoints(folder: Path) -> list[Path]:
    """Returns the complete checkpoints, the newest last."""
    return [path for path in steps_in(folder) if (path / NOTES).is_file()]


def steps_in(folder: Path) -> list[Path]:
    """Returns the step folders in order; folders with other names are ignored."""
    return sorted(path for path in folder.glob("step-*") if STEP.fullmatch(path.name))


def name_of(step: int) -> str:
    return f"step-{step:010d}"


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("step-"))


@contextmanager
def _whole(files: Manifest, step: int, notes: str, place: Worker) -> Iterator[Path]:
    """Yields a draft folder that all processes write into and the main process then renames."""
    folder = files.folder / STATE
    name = f"{STATE}/{name_of(step)}"
    draft = files.drafts / name
    older = steps_in(folder)

    def begin() -> None:
        files.draft(name).mkdir()

    def finish() -> None:
        write_synced(draft / NOTES, notes)
        sync_folder(draft)
        files.remove(name)  # written for the same step before an earlier interruption
        files.install(draft, name)
        sync_folder(folder)

    try:
        place.first(begin)
        yield draft
        place.first(finish)
    except GlassformerError:  # a LoadError is an OSError
        raise
    except (OSError, CheckpointException) as error:
        if place.main:
            shutil.rmtree(draft, ignore_errors=True)
        whole = checkpoints(folder)
        last = f"that of {whole[-1].name} in {folder} is whole" if whole else "there is none yet"
        raise LoadError(
            f"The checkpoint of step {step} could not be written ({_why(error)}); {last}. Make "
            "room or get permission, and the same command goes on from there."
        ) from None
    for path in older if place.main else ():
        if path.name != name_of(step):
            files.remove(f"{STATE}/{path.name}")


def _why(error: BaseException) -> str:
    """Returns the system's error message, also if the checkpoint engine has wrapped it."""
    if isinstance(error, CheckpointException):
        for inner, _ in error.failures.values():
            return _why(inner)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).splitlines() or [type(error).__name__])[0]


@contextmanager
def quietly() -> Iterator[None]:
    """Silences a warning of torch's checkpoint functions."""
    with warnings.catch_warnings():  # about running in a single process
        warnings.filterwarnings("ignore", message=".*assuming the intent is to")
        yield
