"""Compiled, and with activation checkpointing, where layers forget
what they computed, and compute it again for the backward pass. A step then takes a third longer and
needs far less memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from typing import Any

import torch
import torch._functorch.config as functorch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from glassformer.core.attention.sdpa import SOUND
from glassformer.core.pass_context import PassContext
from glassformer.core.stack import Stack
from glassformer.train.cpu_kernels import own_kernels
from glassformer.train.objectives import Objective, TrainingBatch
from glassformer.train.objectives.mixture import Mixture

BUDGET = 0.1
"""The share of what it would keep that a compiled step may keep; the rest is computed again."""


SHAPES = 16
"""So many kinds of batches are recorded; where there are more, none, since each takes memory."""


KERNELS = [SDPBackend.CUDNN_ATTENTION, *SOUND]
"""For attention, the fastest first: cuDNN's takes three quarters of the next one's time on an H200,
but long to get ready for each new shape. torch leaves it out where it doesn't fit, or where all is
to be the same to the bit."""


class Compiled:
    """Frugal, the compiler itself chooses what to compute again: it sees the whole step, and cannot
    see layers that share things in a pass by the wrapper below. Recorded, all that is launched on a
    GPU is launched at once from the third step on: a small step does not wait for Python. On a CPU
    tanh (of GELU) is made of exponentials, in a third of the time.

    Of a mixture each part is compiled by itself, so that there is one graph a part, and not one for
    every set of parts that a batch may have rows of."""

    def __init__(
        self, engine: nn.Module, objective: Objective, *, frugal: bool, recorded: bool
    ) -> None:
        self.engine, self._frugal = engine, frugal
        self._run: Callable[[TrainingBatch], Any] = engine
        self._recorded = torch.compile(engine, options={"triton.cudagraphs": True})
        self._seen: set[tuple[torch.Size, ...]] | None = None
        if isinstance(objective, Mixture):
            objective.learning = {k: _compiled(part) for k, part in objective.parts.items()}
        else:
            self._run = _compiled(engine)
            self._seen = set() if recorded else None

    def __call__(self, batch: TrainingBatch) -> Any:
        frugal = functorch.patch(activation_memory_budget=BUDGET) if self._frugal else nullcontext()
        with frugal, sdpa_kernel(KERNELS, set_priority=True):
            return self._recorded(batch) if self._records(batch) else self._run(batch)

    def _records(self, batch: TrainingBatch) -> bool:
        if self._seen is None:
            return False
        self._seen.add(tuple(x.shape for x in (*batch.inputs.values(), *batch.targets.values())))
        if len(self._seen) > SHAPES:
            self._seen = None
            return False
        torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        return True


def _compiled(part: nn.Module) -> Callable[..., Any]:
    return torch.compile(part, options={"cpp.use_decompose_tanh": True})


def recompute_layers(module: nn.Module) -> None:
    """Every layer of every stack in the module does so from now on, while training."""
    for stack in module.modules():
        if isinstance(stack, Stack):
            for layer in stack.blocks:
                layer.forward = _Forgetful(layer)


class _Forgetful:
    """What layers share in a pass (`PassContext.memo`) is there when a layer runs again, though it
    was not when it ran first; so each is run again in the context as it was."""

    def __init__(self, layer: nn.Module) -> None:
        self._layer = layer
        self._forward = layer.forward

    def __call__(self, x: Any, ctx: PassContext, *rest: Any) -> Any:
        if not self._layer.training:
            return self._forward(x, ctx, *rest)
        before = copy(ctx)
        before.memo = dict(ctx.memo)
        contexts = iter((ctx, before))

        def run(x: Any) -> Any:  # the second time, nobody around it chooses kernels
            with own_kernels(x.device):
                return self._forward(x, next(contexts), *rest)

        return checkpoint(run, x, use_reentrant=False)
