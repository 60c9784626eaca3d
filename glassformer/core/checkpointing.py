"""Gradient checkpointing: layers recompute their activations in the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from glassformer.core.pass_context import PassContext


class GradientCheckpointing:
    """Calls a layer so that only its input is kept for the backward pass.

    Results that layers share in a pass (`PassContext.memo`) exist when a layer is recomputed,
    although they did not when it first ran; so each layer is recomputed with a copy of its original
    context.

    Args:
        context: Returns a context manager for each of the two computations on a device; the second
            one runs outside of the caller's contexts.
    """

    def __init__(
        self, context: Callable[[torch.device], AbstractContextManager[Any]] | None = None
    ) -> None:
        self.context = context or nullcontext

    def __call__(self, layer: nn.Module, x: Tensor, ctx: PassContext, *rest: Any) -> Tensor:
        before = copy(ctx)
        before.memo = dict(ctx.memo)
        contexts = iter((ctx, before))

        def run(x: Tensor) -> Tensor:
            with self.context(x.device):
                out: Tensor = layer(x, next(contexts), *rest)
                return out

        out: Tensor = checkpoint(run, x, use_reentrant=False)
        return out
