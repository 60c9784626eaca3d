"""Reversible conversions between published tensors and ours.

An operation gives the shapes that it expects in the file, reads those tensors as one of ours, and
writes ours as those. `parts` are the heights of the row blocks of a joined matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Identity:
    """One tensor, unchanged."""

    copies: ClassVar[bool] = False  # whether reading creates a new tensor instead of a view

    def shapes(self, local: Shape, parts: Sequence[int]) -> list[Shape]:
        return [local]

    def read(self, hf: list[Tensor]) -> Tensor:
        return hf[0]

    def write(self, local: Tensor, parts: Sequence[int]) -> list[Tensor]:
        return [local]


@dataclass(frozen=True)
class Transpose(Identity):
    """A weight that the file stores as [in, out]; a bias is unchanged."""

    def shapes(self, local: Shape, parts: Sequence[int]) -> list[Shape]:
        return [local[::-1]]

    def read(self, hf: list[Tensor]) -> Tensor:
        return hf[0].t() if hf[0].ndim == 2 else hf[0]

    def write(self, local: Tensor, parts: Sequence[int]) -> list[Tensor]:
        return [local.t() if local.ndim == 2 else local]


@dataclass(frozen=True)
class AsRow(Identity):
    """A vector that the file stores as a matrix with one row."""

    def shapes(self, local: Shape, parts: Sequence[int]) -> list[Shape]:
        return [(1, *local)]

    def read(self, hf: list[Tensor]) -> Tensor:
        return hf[0][0]

    def write(self, local: Tensor, parts: Sequence[int]) -> list[Tensor]:
        return [local[None]]


@dataclass(frozen=True)
class Concatenate(Identity):
    """Several tensors in the file that are the row blocks of one of ours."""

    copies: ClassVar[bool] = True

    def shapes(self, local: Shape, parts: Sequence[int]) -> list[Shape]:
        return [(rows, *local[1:]) for rows in parts]

    def read(self, hf: list[Tensor]) -> Tensor:
        return torch.cat(hf)

    def write(self, local: Tensor, parts: Sequence[int]) -> list[Tensor]:
        return list(torch.split(local, list(parts)))


@dataclass(frozen=True)
class Interleave(Identity):
    """Query, key and value in one tensor, interleaved by head.

    The file has query, key and value of the first head, then those of the second, and so on. Ours
    has all queries, then all keys, then all values.
    """

    head_dim: int
    copies: ClassVar[bool] = True

    def read(self, hf: list[Tensor]) -> Tensor:
        rows = hf[0].view(-1, 3, self.head_dim, *hf[0].shape[1:])
        return rows.transpose(0, 1).reshape_as(hf[0])

    def write(self, local: Tensor, parts: Sequence[int]) -> list[Tensor]:
        rows = local.view(3, -1, self.head_dim, *local.shape[1:])
        return [rows.transpose(0, 1).reshape_as(local)]


@dataclass(frozen=True)
class ReadOnly(Identity):
    """A fixed table that files omit because it can be computed; its rule names no tensor."""

    def shapes(self, local: Shape, parts: Sequence[int]) -> list[Shape]:
        return []

    def write(self, local: Tensor, parts: Sequence[int]) -> list[Tensor]:
        return []


SAME, TRANSPOSED, ROW, JOINED = Identity(), Transpose(), AsRow(), Concatenate()
UNWRITTEN = ReadOnly()
