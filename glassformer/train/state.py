"""Train room, checkpoints: everything a run needs to go on to the bit, as safetensors and JSON.

A checkpoint is written under another name, forced to the disk and renamed; only then are older ones
taken away. So at any moment the newest folder under its own name is whole.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.optim import Optimizer

from glassformer.errors import GlassformerError
from glassformer.train.average import Average

NOTES = "notes.json"
DRAFT = ".draft"
Tensors = dict[str, Tensor]


class State:
    """The tensors of a run by name: trained weights and buffers, what the optimizer remembers of
    each weight, and averages. Weights that are never trained stay as the model began with them."""

    def __init__(self, task: nn.Module, optimizer: Optimizer, average: Average) -> None:
        self.optimizer = optimizer
        self.average = average
        trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
        found = task.state_dict(keep_vars=True)
        self.weights: Tensors = {}
        seen: set[int] = set()
        for name, tensor in found.items():
            fixed = isinstance(tensor, nn.Parameter) and id(tensor) not in trained
            if id(tensor) not in seen and not fixed:  # tied weights are one tensor
                self.weights[name] = tensor
                seen.add(id(tensor))

    def tensors(self) -> Tensors:
        remembered = {
            f"optimizer.{name}.{key}": value
            for name, weight in self.weights.items()
            for key, value in self.optimizer.state.get(weight, {}).items()
        }
        named = {f"weights.{name}": weight.detach() for name, weight in self.weights.items()}
        averages = {f"average.{name}": value for name, value in self.average.tensors.items()}
        return {
            key: value if isinstance(value, Tensor) else torch.tensor(value)
            for key, value in (named | remembered | averages).items()
        }

    def save(self, folder: Path, step: int, notes: Mapping[str, Any]) -> None:
        with _whole(folder, step) as draft, _quietly():
            writer = dcp.HuggingFaceStorageWriter(str(draft), save_distributed=True)
            dcp.save(self.tensors(), storage_writer=writer, no_dist=True)
            write_synced(draft / NOTES, json.dumps({"step": step, **notes}, indent=2) + "\n")

    @torch.no_grad()
    def load(self, folder: Path) -> dict[str, Any]:
        """Takes up the newest checkpoint and returns its notes."""
        newest = checkpoints(folder)[-1]
        reader = dcp.HuggingFaceStorageReader(str(newest))
        stored = reader.read_metadata().state_dict_metadata
        wanted = {f"weights.{name}": weight.detach() for name, weight in self.weights.items()}
        wanted |= {f"average.{name}": value for name, value in self.average.tensors.items()}
        places: dict[str, tuple[Tensor, str]] = {}
        by_length = sorted(self.weights, key=len, reverse=True)
        for key in stored:
            if key.startswith("optimizer."):
                rest = key.removeprefix("optimizer.")
                owner = next((n for n in by_length if rest.startswith(f"{n}.")), None)
                if owner is not None:
                    places[key] = (self.weights[owner], rest.removeprefix(f"{owner}."))
                    wanted[key] = _room(self.weights[owner], stored[key])
        if set(wanted) != set(stored):
            odd = sorted(set(wanted) ^ set(stored))[0]
            raise GlassformerError(
                f"The checkpoint {newest} is of another model or optimizer ({odd}); --restart "
                "begins anew."
            )
        with _quietly():
            dcp.load(wanted, storage_reader=reader, no_dist=True)
        for key, (weight, name) in places.items():
            self.optimizer.state[weight][name] = wanted[key]
        notes: dict[str, Any] = json.loads((newest / NOTES).read_text("utf-8"))
        return notes


def checkpoints(folder: Path) -> list[Path]:
    """Those that are whole, the newest last."""
    return sorted(path for path in folder.glob("step-*") if path.suffix != DRAFT)


def write_synced(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """So that names that were given survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _whole(folder: Path, step: int) -> Iterator[Path]:
    name = folder / f"step-{step:010d}"
    draft = name.with_suffix(DRAFT)
    older = checkpoints(folder)
    try:
        for left in folder.glob(f"*{DRAFT}"):
            shutil.rmtree(left)
        draft.mkdir(parents=True)
        yield draft
        sync_folder(draft)
        if name.exists():  # written before an earlier stop, of the same step
            shutil.rmtree(name)
        draft.rename(name)
        sync_folder(folder)
    except (OSError, dcp.CheckpointException) as error:
        shutil.rmtree(draft, ignore_errors=True)
        last = f"that of {older[-1].name} in {folder} is whole" if older else "there is none yet"
        raise GlassformerError(
            f"The checkpoint of step {step} could not be written ({_why(error)}); {last}. Make "
            "room or get permission, and the same command goes on from there."
        ) from None
    for path in older:
        if path != name:
            shutil.rmtree(path, ignore_errors=True)


def _why(error: BaseException) -> str:
    """What the system said, also where the checkpoint engine has wrapped it."""
    if isinstance(error, dcp.CheckpointException):
        for inner, _ in error.failures.values():
            return _why(inner)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).splitlines() or [type(error).__name__])[0]


def _room(weight: Tensor, stored: Any) -> Tensor:
    """An empty tensor as it was stored; laid out as the weight where it has its shape."""
    kind = stored.properties.dtype
    if stored.size == weight.shape:
        return torch.empty_like(weight, dtype=kind)
    device = weight.device if stored.size else torch.device("cpu")
    return torch.empty(stored.size, dtype=kind, device=device)


@contextmanager
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings():  # that there is one process only
        warnings.filterwarnings("ignore", message=".*assuming the intent is to")
        yield
