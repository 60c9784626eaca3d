"""Train room, compiled steps, and activation checkpointing: layers forget what they computed, and
compute it again for the backward pass. A step takes a third longer and needs far less memory."""

from __future__ import annotations

from collections.abc import Callable
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


def compiled(engine: nn.Module, objective: Objective, *, frugal: bool) -> Callable[..., Any]:
    """The task in its engine. The compiler itself chooses what to compute again: it sees the whole
    step, and cannot see layers that share things in a pass by the wrapper below.

    Of a mixture each part is compiled by itself, so that there is one graph a part, and not one for
    every set of parts that a batch may have rows of."""
    run: Callable[..., Any]
    if isinstance(objective, Mixture):
        run = engine
        for part in objective.parts.values():
            part.compile()
    else:
        run = torch.compile(engine)
    if not frugal:
        return run

    def call(*words: Any) -> Any:
        with functorch.patch(activation_memory_budget=BUDGET):
            return run(*words)

    return call


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
