"""Products with codes that torch computes, for machines without a compiler. Inputs
are rounded, and sums of integers exact, as in int8.cpp and int4.h."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

EXACT = 1024  # products of 8 bits, whose sum is below 2^24: float32 has it, in whatever order


def rounded(x: Tensor, share: int) -> tuple[Tensor, Tensor]:
    """x of [row, in] as integers from -127 to 127, [row, in], and the number that each stands for,
    [row, in / share]: as many are rounded by the largest of them."""
    groups = x.view(len(x), -1, share)
    largest = groups.abs().amax(-1, keepdim=True).clamp_(min=1e-30)
    return (groups / largest).mul_(127).round_().view_as(x), largest[..., 0] / 127


class BlockwiseProduct:
    """[out, in] codes of either kind, in blocks of columns. Weights are code * scale + zero, with
    one scale and zero for `share` numbers of a row, and inputs are rounded by as many."""

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
    """[out, in] codes of 8 bits for torch's kernel, which is exact on machines with VNNI."""

    def __init__(self, codes: Tensor, scale: Tensor) -> None:
        zeros = torch.zeros(len(codes), dtype=torch.long)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says that it will once be done otherwise
            matrix = torch._make_per_channel_quantized_tensor(codes, scale[:, 0].double(), zeros, 0)
        self.matrix = torch.ops.quantized.linear_prepack(matrix, None)

    def multiply(self, x: Tensor, bias: Tensor | None) -> Tensor:
        rows = x.float().reshape(-1, x.shape[-1])
        inputs, sizes = rounded(rows, x.shape[-1])
        y: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            inputs, 1.0, 128, self.matrix
        )
        y = y.mul_(sizes)  # in place: a new tensor of all words costs more than the product
        y = y if bias is None else y.add_(bias)
        return y.view(*x.shape[:-1], -1)
