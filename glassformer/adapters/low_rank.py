"""Adapter modules that change the output of a linear layer.

They are forward hooks of the layer, so that the layer may be quantized or joined and keeps its
name. As submodules of the layer, they are moved, sharded and saved with it.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.adapters.target_modules import TargetModule
from glassformer.core.activation import ACTIVATIONS
from glassformer.core.linear import Linear
from glassformer.spec import Activation


class LowRank(nn.Module):
    """The update scale * B A for a block of rows; with `singular`, scale * B diag(e) A."""

    def __init__(
        self,
        place: TargetModule,
        rank: int,
        scale: float,
        dropout: float = 0.0,
        singular: bool = False,
    ) -> None:
        super().__init__()
        like = _like(place.linear)
        self.start, self.stop = place.start, place.stop
        self.scale, self.dropout = scale, dropout
        self.a = nn.Parameter(torch.zeros(rank, place.linear.in_features, **like))
        self.b = nn.Parameter(torch.zeros(place.stop - place.start, rank, **like))
        self.e = nn.Parameter(torch.zeros(rank, 1, **like)) if singular else None

    @torch.no_grad()
    def initialize(self, generator: torch.Generator) -> None:
        """Draws initial values as peft does; the update is zero at first."""
        if self.e is None:
            reach = 1 / math.sqrt(self.a.shape[1])
            self.a.copy_(torch.empty(self.a.shape).uniform_(-reach, reach, generator=generator))
        else:
            self.a.copy_(torch.empty(self.a.shape).normal_(0, 0.02, generator=generator))
            self.b.copy_(torch.empty(self.b.shape).normal_(0, 0.02, generator=generator))

    @property
    def right(self) -> Tensor:
        return self.a if self.e is None else self.a * self.e

    def delta(self) -> Tensor:
        """Returns the equivalent change of the layer's weight, [row, in]."""
        return self.b @ self.right * self.scale

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(x.to(self.a.dtype), self.dropout, self.training)
        return F.linear(F.linear(x, self.right), self.b) * self.scale


class AdapterUpdates(nn.ModuleList):
    """Forward hook that adds low-rank updates to a layer's output, each to its own rows."""

    def forward(self, linear: Linear, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        parts: list[Any] = list(self)
        changes = {part.start: part(inputs[0]).to(output.dtype) for part in parts}
        ends = {end for part in parts for end in (part.start, part.stop)}
        bounds = sorted({0, output.shape[-1], *ends})
        pieces = [
            output[..., start:stop] + changes[start]
            if start in changes
            else output[..., start:stop]
            for start, stop in pairwise(bounds)
        ]
        return torch.cat(pieces, -1) if len(pieces) > 1 else pieces[0]


class BottleneckAdapter(nn.Module):
    """Forward hook that computes y + up(activation(down(y))); the identity at first."""

    def __init__(self, linear: Linear, width: int, activation: Activation) -> None:
        super().__init__()
        like = _like(linear)
        self.down = nn.Linear(linear.out_features, width, **like)
        self.up = nn.Linear(width, linear.out_features, **like)
        self.activation = ACTIVATIONS[activation]

    @torch.no_grad()
    def initialize(self, generator: torch.Generator) -> None:
        drawn = torch.empty(self.down.weight.shape).normal_(0, 0.02, generator=generator)
        self.down.weight.copy_(drawn)
        for zero in (self.down.bias, self.up.weight, self.up.bias):
            zero.zero_()

    def forward(self, linear: Linear, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        read = output.to(self.down.weight.dtype)
        change: Tensor = self.up(self.activation(self.down(read)))
        return output + change.to(output.dtype)


def _like(linear: Linear) -> dict[str, Any]:
    """Returns the layer's device and dtype, at least float32: small updates need the precision."""
    tensor = next(t for t in (*linear.parameters(), *linear.buffers()))
    floating = tensor.dtype if tensor.is_floating_point() else torch.float32
    return {"device": tensor.device, "dtype": torch.promote_types(floating, torch.float32)}
