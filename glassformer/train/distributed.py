"""Train room, where a run takes place: the device, and which of the processes this is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from glassformer.model import as_device
from glassformer.train.objectives import Batch


@dataclass(frozen=True)
class Place:
    """`rank` of `size` processes, each of which takes its share of a batch's rows."""

    device: torch.device
    rank: int = 0
    size: int = 1

    @property
    def main(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

    @property
    def name(self) -> str:
        """Of the device, as its maker has it."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return str(self.device)

    def total(self, counts: dict[str, float]) -> dict[str, float]:
        """Over all processes."""
        return counts

    def wait(self) -> None:
        """Until a GPU has done what it was told, so that a clock can be read."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def moved(self, batch: Batch) -> Batch:
        """On the device; copied from pinned memory, so that nothing waits for the steps before."""
        if self.device.type == "cpu":
            return batch
        inputs, targets = (
            {
                k: tensor.pin_memory().to(self.device, non_blocking=True)
                for k, tensor in part.items()
            }
            for part in (batch.inputs, batch.targets)
        )
        return Batch(inputs, targets, batch.counts, batch.tokens)


def find_place(device: str) -> Place:
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    found = as_device(device)
    if found == torch.device("cuda"):  # without a number
        found = torch.device("cuda", torch.cuda.current_device())
    return Place(found)


@contextmanager
def deterministic(place: Place, wanted: bool) -> Iterator[None]:
    """Kernels that give the same bits each time, where that was asked for; and whatever is drawn
    inside leaves the random numbers of the caller as they were."""
    before = torch.are_deterministic_algorithms_enabled()
    devices = [place.device] if place.device.type == "cuda" else []
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # or cuBLAS refuses
        torch.use_deterministic_algorithms(True)
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        torch.use_deterministic_algorithms(before)
