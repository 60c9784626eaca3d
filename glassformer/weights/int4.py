"""4-bit quantized weights in the memory layout of int4.h, and products with them."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer import native
from glassformer.rounding import ceil_div
from glassformer.weights import huge_pages
from glassformer.weights.int8 import multiplied

SOURCE = Path(__file__).with_name("int4.cpp")
HEADERS = SOURCE.with_suffix(".h"), SOURCE.with_name("bytes.h")
GROUP = 32  # values of a row that share a scale and a zero
ABREAST = 16  # output rows that are computed together


def library() -> ctypes.CDLL | None:
    """Returns the compiled kernel library, or None if there is no compiler or compilation fails."""
    return native.library(SOURCE, *HEADERS)


class Int4Weight:
    """A 4-bit weight of shape [out, in].

    The codes, two per byte, and the scale and zero of each group are stored in one buffer, in the
    order in which a product reads them.
    """

    def __init__(self, codes: Tensor, scale: Tensor, zero: Tensor) -> None:
        self.shape = len(codes), 2 * codes.shape[1]
        blocks, groups = ceil_div(len(codes), ABREAST), scale.shape[1]
        codes, scale, zero = (
            F.pad(x, (0, 0, 0, -len(x) % ABREAST)) if len(x) % ABREAST else x
            for x in (codes, scale, zero)
        )
        first, second = codes.view(-1, groups, 2, GROUP // 4).unbind(2)  # halves of a group
        both = torch.stack((first & 15 | second << 4, first >> 4 | second & 240), -1)
        factors = torch.stack((zero, scale), -1).bfloat16()  # exact: both fit bfloat16
        size = GROUP // 2 * ABREAST  # bytes of codes per block and group
        self.blocks = huge_pages.empty(blocks * groups * (size + 4 * ABREAST)).view(
            blocks, groups, -1
        )
        self.blocks[..., :size].view(blocks, groups, 4, ABREAST, 4).copy_(
            both.view(blocks, ABREAST, groups, 4, 4).permute(0, 2, 3, 1, 4)
        )
        self.blocks[..., size:].view(torch.bfloat16).view(blocks, groups, ABREAST, 2).copy_(
            factors.view(blocks, ABREAST, groups, 2).transpose(1, 2)
        )

    def multiply(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Computes x [..., in] times the weight, plus bias; x is rounded to 8 bits per group."""
        return multiplied(library(), self.shape, x, bias, {"codes": self.blocks})
