"""Data parallelism with PyTorch's DDP and FSDP2.

With DDP, each process has all weights and gradients are summed. With FSDP2, each process keeps a
shard of every weight, and a layer is gathered while it computes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from glassformer import adapters
from glassformer.adapters import LoRA
from glassformer.core.block import Block
from glassformer.core.stack import Stack
from glassformer.errors import UnsupportedError
from glassformer.train.distributed import Worker
from glassformer.train.objectives import TrainingBatch
from glassformer.train.objectives.mixture import Mixture
from glassformer.train.optimizers import OPTIMIZERS
from glassformer.train.precision import DTYPES
from glassformer.train.recipe import Recipe
from glassformer.train.step import Sums, TrainingModule
from glassformer.train.tensor_parallel import ShardPlan, parts_of, split_layers


def apply_tensor_parallel(module: TrainingModule, worker: Worker, recipe: Recipe) -> ShardPlan:
    """Gives each process its part of the layers' matrices if several processes share them."""
    if worker.world_info is None or worker.tensor_parallel_size == 1:
        return ShardPlan()
    if OPTIMIZERS.find(recipe.train.optimizer).needs_full_matrices:
        fitting = [n for n, kind in OPTIMIZERS.all().items() if not kind.needs_full_matrices]
        raise UnsupportedError(
            f"The optimizer {recipe.train.optimizer!r} needs whole matrices, which "
            f"scale.tensor_parallel_size = {worker.tensor_parallel_size} splits; use "
            f"{' or '.join(fitting)}.",
            field="train.optimizer",
        )
    return split_layers(module, worker.world_info.mesh)


def apply_fsdp(module: TrainingModule, worker: Worker, recipe: Recipe) -> None:
    """Shards the weights with FSDP2 if the recipe asks for it."""
    if worker.world_info is None or worker.data_parallel_size == 1:
        return
    if recipe.scale.parallel != "fsdp":
        return
    _check_sharing(module)
    mesh = worker.world_info.mesh["data"]
    # The matrices of a block are gathered in half precision if that is the precision of its
    # products;
    # norms, embeddings and heads, which belong to the root, stay as exact as on one process.
    half = MixedPrecisionPolicy(
        param_dtype=DTYPES.get(recipe.train.precision),
        reduce_dtype=torch.float32,
        cast_forward_inputs=False,
    )
    for stack in module.modules():
        if isinstance(stack, Stack):
            for layer in stack.blocks:
                if isinstance(layer, Block):
                    fully_shard(parts_of(layer), mesh=mesh, mp_policy=half)
                else:
                    fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    if isinstance(module.objective, Mixture):  # a process may have no rows of some part
        module.set_reduce_scatter_unused_params(True)  # type: ignore[operator]


def wrap_ddp(module: TrainingModule, worker: Worker) -> nn.Module:
    """Returns the module to call in training: with DDP, a wrapper that sums gradients."""
    if worker.world_info is None or worker.data_parallel_size == 1:
        return module
    if isinstance(module, FSDPModule):
        return module
    with warnings.catch_warnings():  # about a future change of how buffers are handled
        warnings.simplefilter("ignore", FutureWarning)
        return DistributedDataParallel(
            IdleParameters(module),
            process_group=worker.world_info.mesh["data"].get_group(),
            broadcast_buffers=False,
            find_unused_parameters=True,
            gradient_as_bucket_view=True,
        )


class IdleParameters(nn.Module):
    """A training module with an additional parameter that no forward pass uses.

    DDP has to look for unused parameters in every step (unused heads, clusters without a word,
    layers that are still frozen), and warns if there is none in the first step.
    """

    def __init__(self, module: TrainingModule) -> None:
        super().__init__()
        self.module = module
        self.idle = nn.Parameter(torch.zeros((), device=next(module.parameters()).device))

    def forward(self, batch: TrainingBatch) -> Sums:
        sums: Sums = self.module(batch)
        return sums


@contextmanager
def unsharded(module: TrainingModule) -> Iterator[None]:
    """Allows calling the network by itself, without gradients, after a forward pass."""
    if isinstance(module, FSDPModule):
        module.unshard()
    yield


def reshard(module: TrainingModule) -> None:
    """Reshards the root after passes without gradients, which leave it gathered.

    The weights may change now and have to be gathered again.
    """
    if isinstance(module, FSDPModule):
        module.reshard()


@contextmanager
def gather_full_state(root: nn.Module, shard_plan: ShardPlan, main: bool) -> Iterator[None]:
    """Gives the main process all weights unsharded, on the CPU, inside the context.

    All processes must enter it, because each holds parts of the weights.
    """
    full: dict[int, nn.Parameter] = {}
    kept: list[tuple[nn.Module, str, Any]] = []
    for path, module in root.named_modules():
        for leaf, weight in module._parameters.items():
            if isinstance(weight, DTensor):
                if id(weight) not in full:
                    tensor = shard_plan.plain(f"{path}.{leaf}", weight.detach())
                    full[id(weight)] = nn.Parameter(tensor.cpu() if main else tensor[:0])
                kept.append((module, leaf, weight))
    try:
        with shard_plan.unsharded_layers(root):
            for module, leaf, weight in kept:
                module._parameters[leaf] = full[id(weight)]
            yield
    finally:
        for module, leaf, weight in kept:
            module._parameters[leaf] = weight


def _check_sharing(module: TrainingModule) -> None:
    adapter = adapters.active(module.net)
    if adapter is not None and type(adapter.settings) is not LoRA:
        raise UnsupportedError(
            "LoRA is the only adapter that supports scale.parallel = 'fsdp'; use 'ddp'.",
            field="scale.parallel",
        )
    for stack in module.modules():
        if isinstance(stack, Stack) and stack.spec.layer_dropout:
            raise UnsupportedError(
                "Randomly dropped layers differ between processes, which scale.parallel = 'fsdp' "
                "does not support; set their dropout to 0 or scale.parallel = 'ddp'.",
                field="scale.parallel",
            )
