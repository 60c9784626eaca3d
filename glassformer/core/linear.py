"""The linear layer, its weight packed for fast inference on a CPU, and the lookup,
which is a linear layer whose input has a single one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.native.torch_kernels import ONEDNN_DTYPES


class TensorVersion:
    """The weights that something was made of, to notice when they have changed since."""

    def __init__(self, *weights: Tensor) -> None:
        # they are held, so that no other weight comes to lie at the same address
        self.seen = [(weight.detach(), weight._version) for weight in weights]

    def holds(self, *weights: Tensor) -> bool:
        return all(
            weight.data_ptr() == seen.data_ptr() and weight._version == version
            for weight, (seen, version) in zip(weights, self.seen, strict=True)
        )


class Linear(nn.Linear):
    """y = x W^T + b with W of [out, in].

    Several projections of one input are joined into one matrix, row block by row block:
    `parts` holds their heights, so that files which keep them apart can be read and written.
    Where only some have a bias (`biased`), it is kept for those and zero for the others.
    """

    def __init__(
        self,
        width: int,
        parts: int | Sequence[int],
        bias: bool = True,
        biased: tuple[bool, ...] | None = None,
    ) -> None:
        self.parts = (parts,) if isinstance(parts, int) else tuple(parts)
        self.biased = biased or (bias,) * len(self.parts)
        self.partly = any(self.biased) and not all(self.biased)
        super().__init__(width, sum(self.parts), bias=any(self.biased))
        if self.partly:
            self.bias = nn.Parameter(torch.zeros(sum(self._heights)))
        self._packed: tuple[Any, TensorVersion] | None = None
        self.instead: Callable[[Tensor, Linear], Tensor | None] | None = None  # see `generate`
        self.roomy: Tensor | None = None  # the storage of its weight, where that has rows to spare

    @property
    def whole_bias(self) -> Tensor | None:
        if not self.partly:
            return self.bias
        held = zip(torch.split(self.bias, self._heights), self.parts, strict=True)
        return torch.cat([x if len(x) else x.new_zeros(rows) for x, rows in held])

    @property
    def _heights(self) -> list[int]:
        """How much of each part's bias there is: all of it, or nothing."""
        return [rows * has for rows, has in zip(self.parts, self.biased, strict=True)]

    def reset_parameters(self) -> None:
        """Weights are drawn by `weights.fresh` or read from a file, never here."""

    def pack(self) -> None:
        """Keeps a copy of the weight in oneDNN's blocked layout for forward passes without grad.

        A weight that has changed since is noticed, and the plain path taken.
        """
        weight = self.weight
        if weight.device.type == "cpu" and weight.dtype in ONEDNN_DTYPES:
            blocked = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), None)
            self._packed = blocked, TensorVersion(weight)

    def unpack(self) -> None:
        self._packed = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy is packed anew; oneDNN's layout cannot be copied."""
        return {**self.__dict__, "_packed": None}

    def forward(self, x: Tensor) -> Tensor:
        if self.instead is not None and not torch.is_grad_enabled():
            other = self.instead(x, self)
            if other is not None:
                return other
        if not torch.is_grad_enabled() and not torch.compiler.is_compiling():
            weight = self.for_kernel(x)
            if weight is not None:
                out: Tensor = torch.ops.mkldnn._linear_pointwise(
                    x, weight, self.whole_bias, "none", [], ""
                )
                return out
        return F.linear(x, self.weight, self.whole_bias)

    def for_kernel(self, x: Tensor) -> Tensor | None:
        """The weight as oneDNN's kernel reads it sooner than F.linear does: for one row as it is,
        for more where it is packed. (For more from a plain weight it adds up in another order than
        the reference, by more than 1e-5 on published weights.)"""
        weight = self.weight
        if x.numel() != x.shape[-1]:
            packed = self._packed
            return packed[0] if packed is not None and packed[1].holds(weight) else None
        here = x.device.type == weight.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
        fits = here and type(weight) is nn.Parameter and weight.is_contiguous()
        return weight if fits and x.dtype == weight.dtype in ONEDNN_DTYPES else None


class EmbeddingTable(nn.Module):
    """A row of the table for every id."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, width))

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.weight)
