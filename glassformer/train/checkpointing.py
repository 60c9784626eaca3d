"""Training checkpoints: everything a run needs to resume bit-exactly, as safetensors and JSON.

A checkpoint is written under another name, synced to disk and renamed; only then are the files of
older ones removed. So the newest folder under a final name is always complete.
"""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

from glassformer.errors import DataError, GlassformerError, LoadError
from glassformer.storage.files import sync_folder, write_synced
from glassformer.train.distributed import Worker
from glassformer.train.manifest import Manifest
from glassformer.train.optimizers import state_tensors
from glassformer.train.run_records import PROGRESS as FORM
from glassformer.train.run_records import read_record
from glassformer.train.tensor_parallel import ShardPlan
from glassformer.train.train_state import RANDOM_CHOICES, TrainState
from glassformer.train.weight_averaging import WeightAverage

if TYPE_CHECKING:
    from glassformer.train.loop import TrainingLoop
    from glassformer.train.run_folder import Run

STATE = "state"
PROGRESS = "notes.json"  # the file of the `TrainState`
STEP = re.compile(r"step-\d{10,}")
Tensors = dict[str, Tensor]


class CheckpointState:
    """The tensors of a run by name.

    These are trained weights and buffers, optimizer state and weight averages. Frozen weights are
    not saved; they keep the values that the model started with.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: Optimizer,
        average: WeightAverage,
        worker: Worker,
        shard_plan: ShardPlan,
    ) -> None:
        self._optimizer = optimizer
        self._average = average
        self._worker = worker
        self._shard_plan = shard_plan
        trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
        self._weights: Tensors = {}
        seen: set[int] = set()
        for name, tensor in module.state_dict(keep_vars=True).items():
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

    def save(self, files: Manifest, state: TrainState) -> None:
        """Writes a checkpoint of the tensors and the state to the run folder of the manifest."""
        text = json.dumps(asdict(state), indent=2) + "\n"
        with _draft_checkpoint(files, state.step, text, self._worker) as draft, no_warnings():
            writer = HuggingFaceStorageWriter(str(draft), save_distributed=True)
            save(self._saved(), storage_writer=writer, **self._process_group())

    def load(self, folder: Path) -> TrainState:
        """Loads the tensors of the newest checkpoint and returns its state."""
        newest = checkpoints(folder)[-1]
        reader = HuggingFaceStorageReader(str(newest))
        wanted = self.tensors()
        with reading(newest):
            stored = reader.read_metadata().state_dict_metadata
        shapes = {k: s.size for k, s in stored.items() if isinstance(s, TensorStorageMetadata)}
        missing, unexpected = wanted.keys() - shapes.keys(), shapes.keys() - wanted.keys()
        mismatched = {n for n in wanted.keys() & shapes.keys() if wanted[n].shape != shapes[n]}
        if odd := sorted(missing | unexpected | mismatched):
            raise LoadError(
                f"The checkpoint {newest} is of another model or optimizer ({odd[0]}); --restart "
                "starts again.",
                missing=sorted(missing),
                unexpected=sorted(unexpected),
                mismatched=sorted(mismatched),
            )
        loaded = self._saved()
        with no_warnings(), reading(newest):
            load(loaded, storage_reader=reader, **self._process_group())
        for name, tensor in wanted.items():
            self._shard_plan.restore(_weight(name), tensor, loaded[name])
        return TrainState.from_checkpoint(read_progress(newest))

    def _saved(self) -> Tensors:
        return {k: self._shard_plan.saved(_weight(k), t) for k, t in self.tensors().items()}

    def _process_group(self) -> dict[str, Any]:
        group = self._worker.slow_group
        return {"no_dist": True} if group is None else {"process_group": group}


class Checkpointer:
    """Writes the checkpoints of a training loop to its run folder, and resumes from them."""

    def __init__(self, loop: TrainingLoop, run: Run) -> None:
        self.loop, self.run = loop, run

    def save(self) -> None:
        """Writes a checkpoint."""
        loop = self.loop
        loop.state.scaler = loop.precision.state()
        loop.state.tokens_per_epoch = loop.data.tokens_per_epoch
        loop.state.tokenizer = self._tokenizer
        self.run.sync()
        loop.checkpoint.save(self.run.manifest, loop.state)

    @property
    def _tokenizer(self) -> str:
        tokenizer = self.loop.model.tokenizer
        return "" if tokenizer is None else tokenizer.fingerprint

    def resume(self) -> None:
        """Restores the state of the last checkpoint; raises an error if the data has changed."""
        loop, run = self.loop, self.run
        loop.state = loop.checkpoint.load(run.state)
        if loop.state.tokenizer not in ("", self._tokenizer):
            raise DataError(
                f"The tokenizer of {run.folder} has changed since its last checkpoint; put its "
                "files back as they were, or --restart starts again."
            )
        if loop.state.tokens_per_epoch != loop.data.tokens_per_epoch:
            raise DataError(
                f"The data had {loop.state.tokens_per_epoch:,} tokens when {run.folder} was "
                f"started and has {loop.data.tokens_per_epoch:,} now; put it back, or --restart "
                "starts again."
            )
        if loop.state.random_choices != RANDOM_CHOICES and loop.module.objective.makes_choices:
            raise DataError(
                f"{run.folder} was started by an older version, which masked texts in another way; "
                "resume with that version, or --restart starts again."
            )
        loop.state.random_choices = RANDOM_CHOICES
        loop.precision.restore(loop.state.scaler)
        run.cut(loop.state.step)
        if loop.worker.is_main:  # removing the older one may have been interrupted
            _remove_others(run.manifest, loop.state.step)


@contextmanager
def reading(checkpoint: Path) -> Iterator[None]:
    """Converts what torch raises for damaged files of a checkpoint to one sentence."""
    try:
        yield
    except (Exception, CheckpointException) as error:  # the second is no Exception
        raise LoadError(
            f"The checkpoint {checkpoint} is damaged ({_why(error)}); --restart starts a new run."
        ) from None


def _weight(name: str) -> str:
    """Returns the name of the weight that a tensor of the state belongs to."""
    part, _, rest = name.partition(".")
    return rest.rpartition(".")[0] if part == "optimizer" else rest


def checkpoints(folder: Path) -> list[Path]:
    """Returns the complete checkpoints, the newest last."""
    return [path for path in step_folders(folder) if (path / PROGRESS).is_file()]


def read_progress(checkpoint: Path) -> dict[str, Any]:
    """Returns the values of the `TrainState` of a checkpoint."""
    values = read_record(checkpoint / PROGRESS, FORM)
    step = values.get("step")
    if step != step_number(checkpoint):
        raise LoadError(
            f"{checkpoint / PROGRESS} is of step {step}, and its folder of another; put it back as "
            "it was, or --restart starts a new run."
        )
    return values


def step_folders(folder: Path) -> list[Path]:
    """Returns the step folders in order; folders with other names are ignored."""
    return sorted(path for path in folder.glob("step-*") if STEP.fullmatch(path.name))


def step_name(step: int) -> str:
    return f"step-{step:010d}"


def step_number(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("step-"))


@contextmanager
def _draft_checkpoint(files: Manifest, step: int, progress: str, worker: Worker) -> Iterator[Path]:
    """Yields a draft folder that all processes write into and the main process then renames."""
    folder = files.folder / STATE
    name = f"{STATE}/{step_name(step)}"
    draft = files.drafts / name

    def begin() -> None:
        files.draft(name).mkdir()

    def finish() -> None:
        write_synced(draft / PROGRESS, progress)
        sync_folder(draft)
        files.remove(name)  # written for the same step before an earlier interruption
        files.install(draft, name)
        sync_folder(folder)

    try:
        worker.on_main(begin)
        yield draft
        worker.on_main(finish)
    except GlassformerError:  # a LoadError is an OSError
        raise
    except (OSError, CheckpointException) as error:
        if worker.is_main:
            shutil.rmtree(draft, ignore_errors=True)
        saved = checkpoints(folder)
        last = f"that of {saved[-1].name} in {folder} is whole" if saved else "there is none yet"
        raise LoadError(
            f"The checkpoint of step {step} could not be written ({_why(error)}); {last}. Make "
            "room or get permission, and the same command resumes from there."
        ) from None
    if worker.is_main:
        _remove_others(files, step)


def _remove_others(files: Manifest, step: int) -> None:
    """Removes the checkpoints of other steps."""
    for path in step_folders(files.folder / STATE):
        if path.name != step_name(step):
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
def no_warnings() -> Iterator[None]:
    """Silences a warning of torch's checkpoint functions."""
    with warnings.catch_warnings():  # about running in a single process
        warnings.filterwarnings("ignore", message=".*assuming the intent is to")
        yield
