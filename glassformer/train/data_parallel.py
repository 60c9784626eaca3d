"""PyTorch's engines around a task. Every process has all weights, and
they add up their gradients (DDP); or each keeps a share of every weight, and a layer is gathered
for as long as it computes (FSDP2)."""

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
from glassformer.errors import GlassformerError
from glassformer.train.distributed import Worker
from glassformer.train.objectives import TrainingBatch
from glassformer.train.objectives.mixture import Mixture
from glassformer.train.precision import DTYPES
from glassformer.train.recipe import Recipe
from glassformer.train.step import Sums, TrainingModule
from glassformer.train.tensor_parallel import ShardPlan, parts_of, split_layers

WHOLE = ("muon", "adafactor")  # optimizers whose rule is one of matrices, not of numbers


def apply_tensor_parallel(task: TrainingModule, place: Worker, recipe: Recipe) -> ShardPlan:
    """Gives every process its part of the layers' matrices, where several share those."""
    if place.company is None or place.tensor == 1:
        return ShardPlan()
    if recipe.train.optimizer in WHOLE:
        raise GlassformerError(
            f"The optimizer {recipe.train.optimizer!r} looks at matrices as a whole, and with "
            f"scale.tensor = {place.tensor} none is; use adamw or sgd."
        )
    return split_layers(task, place.company.mesh)


def apply_fsdp(task: TrainingModule, place: Worker, recipe: Recipe) -> None:
    """With FSDP2, leaves to every process its share of the weights."""
    if place.company is None or place.size == 1 or recipe.scale.parallel != "fsdp":
        return
    _check_sharing(task)
    mesh = place.company.mesh["data"]
    # What a block multiplies with is gathered in half precision, if that is what it multiplies in;
    # norms, embeddings and heads, which are the root's, stay as exact as on one process.
    half = MixedPrecisionPolicy(
        param_dtype=DTYPES.get(recipe.train.precision),
        reduce_dtype=torch.float32,
        cast_forward_inputs=False,
    )
    for stack in task.modules():
        if isinstance(stack, Stack):
            for layer in stack.blocks:
                if isinstance(layer, Block):
                    fully_shard(parts_of(layer), mesh=mesh, mp_policy=half)
                else:
                    fully_shard(layer, mesh=mesh)
    fully_shard(task, mesh=mesh)
    if isinstance(task.objective, Mixture):  # of which a process may have no rows of some part
        task.set_reduce_scatter_unused_params(True)  # type: ignore[operator]


def wrap_ddp(task: TrainingModule, place: Worker) -> nn.Module:
    """What is called in the task's place: with DDP, a module that adds up gradients."""
    if place.company is None or place.size == 1 or isinstance(task, FSDPModule):
        return task
    with warnings.catch_warnings():  # that buffers will be spoken of in another way
        warnings.simplefilter("ignore", FutureWarning)
        return DistributedDataParallel(
            IdleParameters(task),
            process_group=place.company.mesh["data"].get_group(),
            broadcast_buffers=False,
            find_unused_parameters=True,
            gradient_as_bucket_view=True,
        )


class IdleParameters(nn.Module):
    """A task beside a weight that no pass uses. DDP has to look for such weights in every step
    (heads that are not asked, clusters without a word, layers still frozen), and warns if there is
    none in the first one."""

    def __init__(self, task: TrainingModule) -> None:
        super().__init__()
        self.task = task
        self.idle = nn.Parameter(torch.zeros((), device=next(task.parameters()).device))

    def forward(self, batch: TrainingBatch) -> Sums:
        sums: Sums = self.task(batch)
        return sums


@contextmanager
def gathered(task: TrainingModule) -> Iterator[None]:
    """Inside, the net can be called by itself, without gradients, after a pass of the task."""
    if isinstance(task, FSDPModule):
        task.unshard()
    yield


def rest(task: TrainingModule) -> None:
    """After passes without gradients, which leave the root gathered: weights may change now, and
    are to be gathered anew."""
    if isinstance(task, FSDPModule):
        task.reshard()


@contextmanager
def gather_full_state(task: nn.Module, arranged: ShardPlan, main: bool) -> Iterator[None]:
    """Inside, the main process has all weights as one process would, on the CPU. All must come
    here, since each has parts of them."""
    full: dict[int, nn.Parameter] = {}
    kept: list[tuple[nn.Module, str, Any]] = []
    for path, module in task.named_modules():
        for leaf, weight in module._parameters.items():
            if isinstance(weight, DTensor):
                if id(weight) not in full:
                    tensor = arranged.plain(f"{path}.{leaf}", weight.detach())
                    full[id(weight)] = nn.Parameter(tensor.cpu() if main else tensor[:0])
                kept.append((module, leaf, weight))
    try:
        with arranged.undone(task):
            for module, leaf, weight in kept:
                module._parameters[leaf] = full[id(weight)]
            yield
    finally:
        for module, leaf, weight in kept:
            module._parameters[leaf] = weight


def _check_sharing(task: TrainingModule) -> None:
    adapter = adapters.active(task.net)
    if adapter is not None and type(adapter.settings) is not LoRA:
        raise GlassformerError(
            'Of the adapters LoRA alone goes with scale.parallel = "fsdp"; use "ddp".'
        )
    for stack in task.modules():
        if isinstance(stack, Stack) and stack.spec.layer_dropout:
            raise GlassformerError(
                "Layers that are left out at random are others on each process, and cannot be "
                'gathered by all; set that dropout to 0 or scale.parallel = "ddp".'
            )
