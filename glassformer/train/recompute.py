"""Train room, how passes are run: compiled, and with activation checkpointing, where layers forget
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
from torch.utils.checkpoint import checkpoint

from glassformer.core.context import Context
from glassformer.core.stack import Stack
from glassformer.train.objectives import Objective
from glassformer.train.objectives.mixture import Mixture

BUDGET = 0.1
"""The share of what it would keep that a compiled step may keep; the rest is computed again."""


RECORDED: dict[str, Any] = {"triton.cudagraphs": True, "triton.cudagraph_skip_dynamic_graphs": True}
"""Not where shapes differ from step to step: a recording for each would fill the memory."""


class Compiled:
    """Frugal, the compiler itself chooses what to compute again: it sees the whole step, and cannot
    see layers that share things in a pass by the wrapper below. Recorded, all that is launched on a
    GPU is launched at once from the third step on: a small step does not wait for Python.

    Of a mixture each part is compiled by itself, so that there is one graph a part, and not one for
    every set of parts that a batch may have rows of."""

    def __init__(
        self, engine: nn.Module, objective: Objective, *, frugal: bool, recorded: bool
    ) -> None:
        self.engine, self._frugal = engine, frugal
        parts = objective.parts.values() if isinstance(objective, Mixture) else ()
        self._recorded = recorded and not parts
        self._run: Callable[..., Any] = engine
        for part in parts:
            part.compile()
        if not parts:
            self._run = torch.compile(engine, options=RECORDED if recorded else None)

    def __call__(self, *words: Any) -> Any:
        if self._recorded:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        with functorch.patch(activation_memory_budget=BUDGET) if self._frugal else nullcontext():
            return self._run(*words)


def recompute_layers(module: nn.Module) -> None:
    """Every layer of every stack in the module does so from now on, while training."""
    for stack in module.modules():
        if isinstance(stack, Stack):
            for layer in stack.blocks:
                layer.forward = _Forgetful(layer)


class _Forgetful:
    """What layers share in a pass (`Context.memo`) is there when a layer is run again, though it
    was not when it ran first; so each is run again in the context as it was."""

    def __init__(self, layer: nn.Module) -> None:
        self._layer = layer
        self._forward = layer.forward

    def __call__(self, x: Any, ctx: Context, *rest: Any) -> Any:
        if not self._layer.training:
            return self._forward(x, ctx, *rest)
        before = copy(ctx)
        before.memo = dict(ctx.memo)
        contexts = iter((ctx, before))
        return checkpoint(lambda x: self._forward(x, next(contexts), *rest), x, use_reentrant=False)
