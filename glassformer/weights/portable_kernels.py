"""Quantized products computed by torch, for machines without a compiler.

Inputs are rounded, and integer sums are exact, as in int8.cpp and int4.h.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

EXACT = 1024  # so many 8-bit products sum to less than 2^24, exact in float32 in any order


def rounded(x: Tensor, share: int) -> tuple[Tensor, Tensor]:
    """Quantizes x [row, in] to 8 bits, with one scale for every `share` values of a row.

    Returns:
        Integers from -127 to 127, [row, in], and the scales, [row, in / share]. A scale is the
        largest magnitude of its group divided by 127.
    """
    groups = x.view(len(x), -1, share)
    largest = groups.abs().amax(-1, keepdim=True).clamp_(min=1e-30)
    return (groups / largest).mul_(127).round_().view_as(x), largest[..., 0] / 127


class BlockwiseProduct:
    """A product with [out, in] codes of 8 or 4 bits, computed in blocks of columns.

    The weights are code * scale + zero, with one scale and zero for every `share` values of a row;
    inputs are rounded in groups of the same size.
    """

    def __init__(
        self, codes: Tensor, scale: Tensor, zero: Tensor | None = None, share: int | None = None
    ) -> None:
        self.share = share or codes.shape[1]
        self.width = share or EXACT
        self.codes = [block.contiguous() for block in torch.split(codes, self.width, 1)]
        self.scale = scale.float().T.contiguous().expand(len(self.codes), -1)
        self.zero = None if zero is None else zero.float().T.contiguous()

    def multiply(self, x: Tensor, bias: Tensor | None) -> Tensor:
        rows = x.float().reshape(-1, x.shape[-1])
        inputs, sizes = rounded(rows, self.share)
        sizes = sizes.T.expand(len(self.codes), -1)
        total = rows.new_zeros(len(rows), self.scale.shape[1])
        with torch.autocast("cpu", enabled=False):
            for i, part in enumerate(torch.split(inputs, self.width, 1)):
                sums = (part @ self.codes[i].float().T).mul_(self.scale[i])
                if self.zero is not None:
                    sums += part.sum(1, keepdim=True) * self.zero[i]
                total += sums.mul_(sizes[i, :, None])
        total = total if bias is None else total.add_(bias)
        return total.view(*x.shape[:-1], -1)


class PackedProduct:
    """A product with 8-bit [out, in] codes by torch's kernel, which is exact on CPUs with VNNI."""

    def __init__(self, codes: Tensor, scale: Tensor) -> None:
        zeros = torch.zeros(len(codes), dtype=torch.long)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that this API is deprecated
            matrix = torch._make_per_channel_quantized_tensor(codes, scale[:, 0].double(), zeros, 0)
        self.matrix = torch.ops.quantized.linear_prepack(matrix, None)

    def multiply(self, x: Tensor, bias: Tensor | None) -> Tensor:
        rows = x.float().reshape(-1, x.shape[-1])
        inputs, sizes = rounded(rows, x.shape[-1])
        y: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            inputs, 1.0, 128, self.matrix
        )
        y = y.mul_(sizes)  # in place: a new tensor of vocabulary size costs more than the product
        y = y if bias is None else y.add_(bias)
        return y.view(*x.shape[:-1], -1)
