"""Conversions for tensors that a file stores with other dimensions than ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from glassformer.families._shared.weight_ops import Identity, Shape


@dataclass(frozen=True)
class Pointwise(Identity):
    """A matrix that the file stores as a pointwise convolution; a bias is unchanged."""

    def shapes(self, ours: Shape, parts: Sequence[int]) -> list[Shape]:
        return [(*ours, 1, 1) if len(ours) == 2 else ours]

    def read(self, theirs: list[Tensor]) -> Tensor:
        return theirs[0].flatten(1) if theirs[0].ndim == 4 else theirs[0]

    def write(self, ours: Tensor, parts: Sequence[int]) -> list[Tensor]:
        return [ours[..., None, None] if ours.ndim == 2 else ours]


@dataclass(frozen=True)
class Squeeze(Identity):
    """A vector that the file stores with two leading dimensions of size 1."""

    def shapes(self, ours: Shape, parts: Sequence[int]) -> list[Shape]:
        return [(1, 1, *ours)]

    def read(self, theirs: list[Tensor]) -> Tensor:
        return theirs[0][0, 0]

    def write(self, ours: Tensor, parts: Sequence[int]) -> list[Tensor]:
        return [ours[None, None]]


@dataclass(frozen=True)
class PerHeadQKV(Identity):
    """Matrices that the file stores as [width, head, dim]; several are the row blocks of ours.

    Ours is [head * dim, width], or [width, head * dim] if `transposed` is false.
    """

    heads: int
    transposed: bool = True
    copies: ClassVar[bool] = True

    def shapes(self, ours: Shape, parts: Sequence[int]) -> list[Shape]:
        if not self.transposed:
            return [(ours[0], self.heads, ours[1] // self.heads)]
        return [(ours[1], self.heads, rows // self.heads) for rows in parts]

    def read(self, theirs: list[Tensor]) -> Tensor:
        flat = [tensor.flatten(1) for tensor in theirs]
        return torch.cat([tensor.t() for tensor in flat]) if self.transposed else flat[0]

    def write(self, ours: Tensor, parts: Sequence[int]) -> list[Tensor]:
        flat = [part.t() for part in torch.split(ours, list(parts))] if self.transposed else [ours]
        return [tensor.reshape(len(tensor), self.heads, -1) for tensor in flat]


POINTWISE, SINGLE = Pointwise(), Squeeze()
