"""Devices and processes of distributed training.

`torchrun` starts the processes and tells each its rank. They form a mesh of `size` rows, which
share the data, and `tensor` columns, which share the matrices of every layer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from glassformer.errors import ConfigError, DeviceError, GlassformerError
from glassformer.loading import as_device
from glassformer.train.objectives import TrainingBatch
from glassformer.train.recipe import ScaleSettings

T = TypeVar("T")
PATIENCE = timedelta(days=7)  # of waiting while the main process tokenizes data or writes a model


@dataclass(frozen=True)
class WorldInfo:
    """The device mesh and process groups.

    `fast_group` is for operations that all processes do at the same time, so that a hanging process
    is noticed; `slow_group` is for waiting while one process works. Both transfer CPU objects,
    whatever device the weights are on.
    """

    mesh: DeviceMesh  # [data, tensor]
    fast_group: dist.ProcessGroup
    slow_group: dist.ProcessGroup


@dataclass(frozen=True)
class Worker:
    """This process: number `global_rank` of `world_size`.

    As `data_rank` of `data_parallel_size` it takes its share of a batch's rows; groups of
    `tensor_parallel_size` processes have the same rows, and each process holds a part of the
    matrices.
    """

    device: torch.device
    global_rank: int = 0
    world_size: int = 1
    tensor_parallel_size: int = 1
    world_info: WorldInfo | None = None

    @property
    def is_main(self) -> bool:
        """Whether this process writes and prints."""
        return self.global_rank == 0

    @property
    def data_rank(self) -> int:
        return self.global_rank // self.tensor_parallel_size

    @property
    def data_parallel_size(self) -> int:
        return self.world_size // self.tensor_parallel_size

    @property
    def slow_group(self) -> dist.ProcessGroup | None:
        return None if self.world_info is None else self.world_info.slow_group

    @property
    def device_name(self) -> str:
        """The device name that the vendor gives."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return str(self.device)

    def all_gather(self, own: T) -> list[T]:
        """Returns the values of all data-parallel ranks, in their order."""
        if self.world_info is None:
            return [own]
        every: list[Any] = [None] * self.world_size
        dist.all_gather_object(every, own, group=self.world_info.fast_group)
        return every[:: self.tensor_parallel_size]

    def sum_over_ranks(self, counts: dict[str, float]) -> dict[str, float]:
        """Returns the sums over all data-parallel ranks."""
        sums: dict[str, float] = {}
        for own in self.all_gather(counts):
            for name, value in own.items():
                sums[name] = sums.get(name, 0.0) + value
        return sums

    def on_main(self, function: Callable[[], T]) -> T | None:
        """Calls a function in the main process while the others wait.

        If it fails, all processes raise its error. Returns None in the other processes.
        """
        if self.world_info is None:
            return function()
        result: T | None = None
        failed: list[Exception | None] = [None]
        if self.is_main:
            try:
                result = function()
            except (GlassformerError, OSError) as error:
                failed = [error]
        dist.broadcast_object_list(failed, 0, group=self.world_info.slow_group)
        if failed[0] is not None:
            raise failed[0]
        return result

    def on_main_first(self, function: Callable[[], T]) -> T:
        """Calls a function in the main process, then in the others, which can use its files.

        The function must not return None.
        """
        result = self.on_main(function)
        return function() if result is None else result

    def synchronize(self) -> None:
        """Waits until the GPU has finished its queued work, before a time measurement."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def to_device(self, batch: TrainingBatch) -> TrainingBatch:
        """Returns the batch on the device.

        The copy is asynchronous, from pinned memory, so that it does not wait for earlier steps.
        """
        if self.device.type == "cpu":
            return batch
        inputs, targets = (
            {
                k: tensor.pin_memory().to(self.device, non_blocking=True)
                for k, tensor in part.items()
            }
            for part in (batch.inputs, batch.targets)
        )
        return TrainingBatch(inputs, targets, batch.counts, batch.tokens, batch.extra)


def find_worker(device: str) -> Worker:
    """Returns the worker of a single process."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    found = as_device(device)
    if found == torch.device("cuda"):  # without an index
        found = torch.device("cuda", torch.cuda.current_device())
    return Worker(found)


@contextmanager
def init_distributed(device: str, scale: ScaleSettings) -> Iterator[Worker]:
    """Yields the worker of a process that torchrun has started, or of a single process."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world % scale.tensor_parallel_size:
        raise ConfigError(
            f"scale.tensor_parallel_size is {scale.tensor_parallel_size}, which does not divide "
            f"the number of processes, {world}; use for example torchrun --nproc-per-node "
            f"{scale.tensor_parallel_size} -m glassformer ..."
        )
    if scale.parallel == "ddp" and 1 < scale.tensor_parallel_size < world:
        raise ConfigError(
            f"With scale.tensor_parallel_size = {scale.tensor_parallel_size}, the {world} "
            "processes also share the data, which needs scale.parallel = 'fsdp'."
        )
    if world == 1:
        yield find_worker(device)
        return
    worker = find_worker(device)
    if worker.device.type == "cuda":
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if local >= torch.cuda.device_count():
            raise DeviceError(
                f"There are more processes than the {torch.cuda.device_count()} GPUs of this "
                "machine; start one process per GPU, or set scale.device=cpu."
            )
        worker = Worker(torch.device("cuda", local))
        torch.cuda.set_device(worker.device)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if worker.device.type == "cuda" else "gloo",
        timeout=timedelta(minutes=scale.timeout_minutes),
    )
    shape = (world // scale.tensor_parallel_size, scale.tensor_parallel_size)
    world_info = WorldInfo(
        init_device_mesh(worker.device.type, shape, mesh_dim_names=("data", "tensor")),
        dist.new_group(backend="gloo", timeout=timedelta(minutes=scale.timeout_minutes)),
        dist.new_group(backend="gloo", timeout=PATIENCE),
    )
    yield Worker(worker.device, dist.get_rank(), world, scale.tensor_parallel_size, world_info)
    dist.destroy_process_group()  # not after an error: other processes may never reach it


@contextmanager
def deterministic(worker: Worker, wanted: bool) -> Iterator[None]:
    """Uses deterministic kernels if wanted, and restores the caller's random state on exit."""
    before = torch.are_deterministic_algorithms_enabled()
    devices = [worker.device] if worker.device.type == "cuda" else []
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # required by cuBLAS
        torch.use_deterministic_algorithms(True)
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        torch.use_deterministic_algorithms(before)
