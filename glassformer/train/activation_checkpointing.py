"""Compiled steps, and activation checkpointing, which recomputes layers in the backward pass.

With activation checkpointing a step takes a third longer and needs far less memory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch._functorch.config as functorch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from glassformer.core.attention.sdpa import SOUND
from glassformer.core.checkpointing import GradientCheckpointing
from glassformer.core.stack import Stack
from glassformer.train.cpu_kernels import own_kernels
from glassformer.train.objectives import Objective, TrainingBatch
from glassformer.train.objectives.mixture import Mixture

BUDGET = 0.1
"""Fraction of the activations that a compiled step may keep; the rest is recomputed."""


KERNELS = [SDPBackend.CUDNN_ATTENTION, *SOUND]
"""Attention kernels, the fastest first.

cuDNN's takes three quarters of the next one's time on an H200, but it takes long to prepare for
each new shape. torch skips it where it does not apply, or where results must be deterministic.
"""


class Compiled:
    """A compiled training module.

    With `frugal`, the compiler itself chooses what to recompute: it sees the whole step, and it
    cannot trace the wrapper below for layers that share results in a pass. On a CPU, tanh (in GELU)
    is computed from exponentials, in a third of the time.

    With `few_shapes` each batch shape is compiled by itself, which gives the fastest kernels;
    otherwise a second shape is compiled for all further ones. Each part of a mixture is compiled
    separately, so that there is one graph per part rather than one for each set of parts that a
    batch may have rows of.
    """

    def __init__(
        self, wrapped_module: nn.Module, objective: Objective, *, frugal: bool, few_shapes: bool
    ) -> None:
        self.wrapped_module, self._frugal = wrapped_module, frugal
        self._run: Callable[[TrainingBatch], Any] = wrapped_module
        if isinstance(objective, Mixture):
            objective.learning = {k: _compiled(part) for k, part in objective.parts.items()}
        else:
            self._run = _compiled(wrapped_module, dynamic=False if few_shapes else None)

    def __call__(self, batch: TrainingBatch) -> Any:
        frugal = functorch.patch(activation_memory_budget=BUDGET) if self._frugal else nullcontext()
        with frugal, sdpa_kernel(KERNELS, set_priority=True):
            return self._run(batch)


def _compiled(part: nn.Module, dynamic: bool | None = None) -> Callable[..., Any]:
    return torch.compile(part, dynamic=dynamic, options={"cpp.use_decompose_tanh": True})


def recompute_layers(module: nn.Module) -> None:
    """Makes every layer of every stack in the module recompute its activations during training."""
    for stack in module.modules():
        if isinstance(stack, Stack):
            stack.checkpointing = GradientCheckpointing(own_kernels)
