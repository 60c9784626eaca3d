"""Linear layers with optional packed weights for fast CPU inference, and embedding tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.versioning import TensorVersion
from glassformer.errors import InputError
from glassformer.native.torch_kernels import ONEDNN_DTYPES


class Linear(nn.Linear):
    """y = x W^T + b with W of [out, in].

    Several projections of one input are joined into one matrix by rows: `parts` holds their numbers
    of rows, so that files which store them separately can be read and written. If only some have a
    bias (`biased`), only those biases are stored; the others are zero.
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
        self.has_partial_bias = any(self.biased) and not all(self.biased)
        super().__init__(width, sum(self.parts), bias=any(self.biased))
        if self.has_partial_bias:
            self.bias = nn.Parameter(torch.zeros(sum(self._heights)))
        self._packed: tuple[Any, TensorVersion] | None = None
        self.forward_override: Callable[[Tensor, Linear], Tensor | None] | None = (
            None  # see `generate`
        )
        self.padded_weight: Tensor | None = None  # the weight's storage, if it has spare rows

    @property
    def full_bias(self) -> Tensor | None:
        """The bias of all parts, with zeros for parts without one."""
        if not self.has_partial_bias:
            return self.bias
        held = zip(torch.split(self.bias, self._heights), self.parts, strict=True)
        return torch.cat([x if len(x) else x.new_zeros(rows) for x, rows in held])

    @property
    def _heights(self) -> list[int]:
        """The length of each part's stored bias: its number of rows, or 0."""
        return [rows * has for rows, has in zip(self.parts, self.biased, strict=True)]

    def reset_parameters(self) -> None:
        """Does nothing: weights are initialized by `weights.initialize` or read from a file."""

    def pack(self) -> None:
        """Keeps a copy of the weight in oneDNN's blocked layout for passes without gradients.

        If the weight has changed since, the copy is ignored and the plain weight is used. That is
        checked in every pass, by a checksum of the weight.
        """
        weight = self.weight
        if weight.device.type == "cpu" and weight.dtype in ONEDNN_DTYPES:
            blocked = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), None)
            self._packed = blocked, TensorVersion(weight)

    def unpack(self) -> None:
        self._packed = None

    def with_spare_rows(self) -> Tensor | None:
        """The weight's storage with its spare rows; None if the weight has another storage now."""
        padded = self.padded_weight
        if padded is None or torch.compiler.is_compiling():
            return padded
        return padded if padded.data_ptr() == self.weight.data_ptr() else None

    def __getstate__(self) -> dict[str, Any]:
        """Omits the packed weight, because oneDNN's layout cannot be copied."""
        return {**self.__dict__, "_packed": None}

    def forward(self, x: Tensor) -> Tensor:
        if self.forward_override is not None and not torch.is_grad_enabled():
            other = self.forward_override(x, self)
            if other is not None:
                return other
        if not torch.is_grad_enabled() and not torch.compiler.is_compiling():
            weight = self.for_kernel(x)
            if weight is not None:
                out: Tensor = torch.ops.mkldnn._linear_pointwise(
                    x, weight, self.full_bias, "none", [], ""
                )
                return out
        return F.linear(x, self.weight, self.full_bias)

    def for_kernel(self, x: Tensor) -> Tensor | None:
        """Returns the weight for oneDNN's kernel where that is faster than F.linear, else None.

        For one input row this is the plain weight, for more rows the packed one. (For more rows
        with a plain weight the kernel sums in another order than the reference, with differences
        above 1e-5 on published weights.)
        """
        weight = self.weight
        if x.numel() != x.shape[-1]:
            packed = self._packed
            return packed[0] if packed is not None and packed[1].matches(weight) else None
        here = x.device.type == weight.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
        fits = here and type(weight) is nn.Parameter and weight.is_contiguous()
        return weight if fits and x.dtype == weight.dtype in ONEDNN_DTYPES else None


class EmbeddingTable(nn.Module):
    """One learned vector per id."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, width))

    def forward(self, ids: Tensor) -> Tensor:
        try:
            return F.embedding(ids, self.weight)
        except IndexError:  # raised on a CPU; a check of its own would read all ids
            least, most = int(ids.min()), int(ids.max())
            raise InputError(
                f"The ids go from {least} to {most}, and the table has {len(self.weight)} rows "
                f"(ids 0 to {len(self.weight) - 1}); encode texts with the model's own tokenizer."
            ) from None
