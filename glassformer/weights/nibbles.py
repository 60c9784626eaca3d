"""Room 5, weights: codes of 4 bits as nibbles.h reads them, and products with them."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer import native
from glassformer.weights import pages
from glassformer.weights.codes import Product

SOURCE = Path(__file__).with_name("nibbles.cpp")
HEADER = SOURCE.with_suffix(".h")
GROUP = 32  # numbers of a row that share a scale and a zero
ABREAST = 16  # outputs that are computed together


def library() -> ctypes.CDLL | None:
    """None where there is no compiler, or where it fails."""
    return native.library(SOURCE, HEADER)


class Nibbles:
    """[out, in] codes, two a byte, with scale and zero of each group: all in one stream, in the
    order in which a product reads it."""

    def __init__(self, codes: Tensor, scale: Tensor, zero: Tensor) -> None:
        self.shape = len(codes), 2 * codes.shape[1]
        rows, groups = len(codes) + -len(codes) % ABREAST, scale.shape[1]
        codes, scale, zero = (F.pad(x, (0, 0, 0, rows - len(codes))) for x in (codes, scale, zero))
        pairs = codes.view(rows, groups, GROUP // 2)
        single = torch.stack((pairs & 15, pairs >> 4), -1).flatten(2)  # [out, group, input]
        both = single[..., : GROUP // 2] | single[..., GROUP // 2 :] << 4
        blocks = both.view(-1, ABREAST, groups, 4, 4).permute(0, 2, 3, 1, 4)
        factors = torch.stack((zero, scale), -1).bfloat16()  # which they are numbers of
        factors = factors.view(-1, ABREAST, groups, 2).transpose(1, 2).contiguous()
        parts = blocks.flatten(2), factors.view(torch.uint8).flatten(2)
        whole = torch.cat(parts, -1)  # [out / ABREAST, group, byte]
        self.blocks = pages.empty(whole.nbytes).view(whole.shape).copy_(whole)

    def multiply(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """x of [..., in], every group rounded to 8 bits, times the weights, plus bias."""
        height, width = self.shape
        rows = x.float().contiguous()
        out = torch.empty(*x.shape[:-1], height)
        offset = None if bias is None else bias.float().contiguous()
        product = Product(
            rows=rows.numel() // width,
            in_=width,
            out=height,
            x=rows.data_ptr(),
            codes=self.blocks.data_ptr(),
            bias=None if offset is None else offset.data_ptr(),
            y=out.data_ptr(),
        )
        made = library()
        assert made is not None
        made.multiply(ctypes.byref(product), torch.get_num_threads())
        return out
