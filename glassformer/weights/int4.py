"""Codes of 4 bits as int4.h reads them, and products with them."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer import native
from glassformer.weights import huge_pages
from glassformer.weights.int8 import multiplied

SOURCE = Path(__file__).with_name("int4.cpp")
HEADERS = SOURCE.with_suffix(".h"), SOURCE.with_name("bytes.h")
GROUP = 32  # numbers of a row that share a scale and a zero
ABREAST = 16  # outputs that are computed together


def library() -> ctypes.CDLL | None:
    """None where there is no compiler, or where it fails."""
    return native.library(SOURCE, *HEADERS)


class Int4Weight:
    """[out, in] codes, two a byte, with scale and zero of each group: all in one stream, in the
    order in which a product reads it."""

    def __init__(self, codes: Tensor, scale: Tensor, zero: Tensor) -> None:
        self.shape = len(codes), 2 * codes.shape[1]
        blocks, groups = -(-len(codes) // ABREAST), scale.shape[1]
        codes, scale, zero = (
            F.pad(x, (0, 0, 0, -len(x) % ABREAST)) if len(x) % ABREAST else x
            for x in (codes, scale, zero)
        )
        first, second = codes.view(-1, groups, 2, GROUP // 4).unbind(2)  # halves of a group
        both = torch.stack((first & 15 | second << 4, first >> 4 | second & 240), -1)
        factors = torch.stack((zero, scale), -1).bfloat16()  # which they are numbers of
        size = GROUP // 2 * ABREAST  # bytes of codes
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
        """x of [..., in], every group rounded to 8 bits, times the weights, plus bias."""
        return multiplied(library(), self.shape, x, bias, {"codes": self.blocks})
