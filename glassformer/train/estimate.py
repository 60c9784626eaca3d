"""Estimates the memory, time and floating-point operations of a run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from glassformer.core import Transformer
from glassformer.native.torch_kernels import ONEDNN_DTYPES
from glassformer.train.data_parallel import reshard
from glassformer.train.distributed import Worker
from glassformer.train.optimizers.shards import local
from glassformer.train.precision import DTYPES
from glassformer.train.step import accumulate_gradients

if TYPE_CHECKING:
    from glassformer.train.loop import TrainingLoop

TIMED = 3  # steps that a dry run measures
ATTENTION = (
    torch.ops.aten._scaled_dot_product_efficient_attention,
    torch.ops.aten._scaled_dot_product_flash_attention,
    torch.ops.aten._scaled_dot_product_cudnn_attention,
)
SIDE = {"cuda": 8192, "cpu": 512}  # of the square matrices that measure a device's peak throughput


@dataclass(frozen=True, kw_only=True)
class MemoryEstimate:
    """Memory of one process in bytes.

    `activations` is what the backward pass of one micro-batch needs from its forward pass; it is
    known only after a real step.
    """

    weights: int
    gradients: int
    optimizer: int
    average: int
    activations: int | None = None

    @property
    def total(self) -> int:
        known = (self.weights, self.gradients, self.optimizer, self.average)
        return sum(known) + (self.activations or 0)


@dataclass(frozen=True, kw_only=True)
class RunEstimate:
    """The expected cost of a run."""

    architecture: str
    device: str
    parameters: int
    body: int  # those inside the layers, without embeddings and heads
    trained: int
    steps: int
    tokens_step: int  # in the first step; other steps may differ slightly
    tokens_epoch: int
    epochs: float
    memory: MemoryEstimate
    flops_token: float  # forward and backward
    ceiling: float  # FLOP/s that the devices reach in large matrix products
    seconds_step: float | None = None

    @property
    def tokens_run(self) -> int:
        return self.tokens_step * self.steps

    @property
    def seconds(self) -> float | None:
        return None if self.seconds_step is None else self.seconds_step * self.steps

    def utilization(self, tokens_per_second: float) -> float:
        return tokens_per_second * self.flops_token / self.ceiling


def estimate_run(loop: TrainingLoop, *, measure: bool = False) -> RunEstimate:
    """Estimates the cost of a run.

    Args:
        loop: The training loop.
        measure: Whether to take a few real steps to measure time and activations. They change the
            loop, which must not be used afterward.

    Returns:
        The estimate; without `measure`, activations and time are None.
    """
    net_and_objective = list(loop.module.parameters())
    settings, state = loop.settings, loop.optimizer.state
    tokens, flops = _first_step(loop)
    activations, seconds = _measured(loop) if measure else (None, None)
    return RunEstimate(
        architecture=loop.model.architecture,
        device=loop.worker.device_name,
        body=body(loop.module.net),
        parameters=sum(p.numel() for p in net_and_objective),
        trained=sum(p.numel() for p in loop.parameters),
        steps=settings.num_training_steps,
        tokens_step=tokens,
        tokens_epoch=loop.data.tokens_per_epoch,
        epochs=settings.num_training_steps / loop.data.steps_per_epoch,
        memory=MemoryEstimate(
            weights=_bytes(net_and_objective),
            gradients=_bytes(loop.parameters),
            optimizer=_bytes(value for kept in state.values() for value in kept.values()),
            average=_bytes(loop.average.tensors.values()),
            activations=activations,
        ),
        flops_token=flops,
        ceiling=ceiling(loop.worker, settings.precision) * loop.worker.world_size,
        seconds_step=seconds,
    )


def body(model: Transformer) -> int:
    """Returns the number of parameters in the layers.

    Embeddings of tokens, positions and segments are left out (Kaplan et al., 2020, 2.1), and so are
    heads, which are the token embeddings again if they are tied.
    """
    stacks = [stack for stack in (model.encoder, model.decoder) if stack is not None]
    within = {p for stack in stacks for p in stack.parameters()}
    return sum(p.numel() for p in within.difference(*(s.embed.parameters() for s in stacks)))


@torch.no_grad()
def _first_step(loop: TrainingLoop) -> tuple[int, float]:
    """Returns the number of tokens of the first step, and the FLOPs per token.

    The backward pass takes twice as many FLOPs as the forward pass.
    """
    batches = loop.data.batches(loop.state.step)
    unknown: dict[Any, Callable[..., int]] = dict.fromkeys(ATTENTION, _attention_flops)
    unknown[torch.ops.glassformer.cross_entropy] = _product_flops
    if ONEDNN_DTYPES:
        unknown[torch.ops.mkldnn._linear_pointwise] = _product_flops
    with (
        FlopCounterMode(display=False, custom_mapping=unknown) as counter,
        loop.precision.autocast(),
    ):
        loop.module(loop.worker.to_device(batches[0]))
    reshard(loop.module)
    own = {"all": sum(batch.tokens for batch in batches), "first": batches[0].tokens}
    total = loop.worker.sum_over_ranks(
        {**own, "flops": counter.get_total_flops() * loop.worker.tensor_parallel_size}
    )
    return int(total["all"]), 3 * total["flops"] / max(total["first"], 1)


def _product_flops(x: Sequence[int], weight: Sequence[int], *rest: Any, **named: Any) -> int:
    """Returns the FLOPs of operations that the counter does not know.

    These are the fused cross-entropy and linear layers on a CPU: rows of [..., width] times a
    matrix of [out, width].
    """
    return 2 * math.prod(x) * weight[0]


def _attention_flops(
    q: Sequence[int], k: Sequence[int], v: Sequence[int], *rest: Any, **named: Any
) -> int:
    """Returns the FLOPs of attention for queries of [row, head, token, width].

    The formula of torch 2.11's counter does not support grouped-query attention.
    """
    scores = math.prod(q[:3]) * k[2]
    return 2 * scores * (q[3] + v[3])


def _measured(loop: TrainingLoop) -> tuple[int, float]:
    """Returns the bytes of activations, and the seconds per step."""
    own = {local(weight).untyped_storage().data_ptr() for weight in loop.module.parameters()}
    held: dict[int, int] = {}

    def hold(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    batch = loop.data.batches(0)[:1]
    factors = loop.module.factors(loop.worker.sum_over_ranks(loop.module.counts(batch)))
    with torch.autograd.graph.saved_tensors_hooks(hold, lambda tensor: tensor):
        accumulate_gradients(loop.forward_backward, batch, factors, loop.worker, (0, 0))
    loop.train_step()
    for _ in range(TIMED):
        loop.worker.synchronize()
        begun = time.perf_counter()
        loop.train_step()
        loop.worker.synchronize()
        seconds = time.perf_counter() - begun
    return sum(held.values()), seconds


def ceiling(worker: Worker, precision: str) -> float:
    """Measures the FLOP/s that the device reaches in matrix products."""
    side = SIDE.get(worker.device.type, SIDE["cpu"])
    kind = DTYPES.get(precision, torch.float32) if worker.device.type == "cuda" else torch.float32
    matrix = torch.randn(side, side, dtype=kind, device=worker.device)
    best = float("inf")
    for _ in range(4):
        worker.synchronize()
        begun = time.perf_counter()
        matrix @ matrix
        worker.synchronize()
        best = min(best, time.perf_counter() - begun)
    return 2 * side**3 / best


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(local(tensor).nbytes for tensor in tensors)
