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

    def shapes(self, local: Shape, parts: Sequence[int]) -> list[Shape]:
        return [(*local, 1, 1) if len(local) == 2 else local]

    def read(self, hf: list[Tensor]) -> Tensor:
        return hf[0].flatten(1) if hf[0].ndim == 4 else hf[0]

    def write(self, local: Tensor, parts: Sequence[int]) -> list[Tensor]:
        return [local[..., None, None] if local.ndim == 2 else local]


@dataclass(frozen=True)
class Squeeze(Identity):
    """A vector that the file stores with two leading dimensions of size 1."""

    def shapes(self, local: Shape, parts: Sequence[int]) -> list[Shape]:
        return [(1, 1, *local)]

    def read(self, hf: list[Tensor]) -> Tensor:
        return hf[0][0, 0]

    def write(self, local: Tensor, parts: Sequence[int]) -> list[Tensor]:
        return [local[None, None]]


@dataclass(frozen=True)
class PerHeadQKV(Identity):
    """Matrices that the file stores as [width, head, dim]; several are the row blocks of ours.

    Ours is [head * dim, width], or [width, head * dim] if `transposed` is false.
    """

    heads: int
    transposed: bool = True
    copies: ClassVar[bool] = True

    def shapes(self, local: Shape, parts: Sequence[int]) -> list[Shape]:
        if not self.transposed:
            return [(local[0], self.heads, local[1] // self.heads)]
        return [(local[1], self.heads, rows // self.heads) for rows in parts]

    def read(self, hf: list[Tensor]) -> Tensor:
        flat = [tensor.flatten(1) for tensor in hf]
        return torch.cat([tensor.t() for tensor in flat]) if self.transposed else flat[0]

    def write(self, local: Tensor, parts: Sequence[int]) -> list[Tensor]:
        flat = (
            [part.t() for part in torch.split(local, list(parts))] if self.transposed else [local]
        )
        return [tensor.reshape(len(tensor), self.heads, -1) for tensor in flat]


POINTWISE, SINGLE = Pointwise(), Squeeze()
