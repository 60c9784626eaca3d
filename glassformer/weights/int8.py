"""8-bit quantized weights in the memory layout of int8.cpp, and products with them."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer import native

SOURCE = Path(__file__).with_name("int8.cpp")
HEADER = SOURCE.with_name("bytes.h")
COLUMNS = 64


class Int8Product(ctypes.Structure):
    """Arguments of a product; must match the struct in int8.cpp."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "in_", "out")),
        *((name, c_void_p) for name in ("x", "codes", "sums", "scale", "bias", "y")),
    )


def library() -> ctypes.CDLL | None:
    """Returns the compiled kernel library, or None if there is no compiler or compilation fails."""
    return native.library(SOURCE, HEADER)


class Int8Weight:
    """An 8-bit weight of shape [out, in], stored in the order in which a product reads it."""

    def __init__(self, codes: Tensor, scale: Tensor) -> None:
        height, width = codes.shape
        whole = F.pad(codes, (0, -width % 4, 0, -height % COLUMNS))
        blocks = whole.view(len(whole) // COLUMNS, COLUMNS, -1, 4)
        self.blocks = blocks.transpose(1, 2).contiguous()
        self.sums = whole.sum(1, dtype=torch.int32)
        self.scale = scale.float().contiguous()
        self.shape = height, width

    def multiply(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Computes x [..., in] times (codes * scale), plus bias; rounds each row of x to 8 bits."""
        given = {"codes": self.blocks, "sums": self.sums, "scale": self.scale}
        return multiplied(library(), self.shape, x, bias, given)


def multiplied(
    made: ctypes.CDLL | None,
    shape: tuple[int, int],
    x: Tensor,
    bias: Tensor | None,
    given: dict[str, Tensor],
) -> Tensor:
    """Calls a kernel library's `multiply`.

    Args:
        made: The compiled library.
        shape: [out, in] of the weight.
        x: The input, [..., in].
        bias: The bias, [out], or None.
        given: Further tensors, by the names of their fields in `Int8Product`.

    Returns:
        The product in float32, [..., out].
    """
    height, width = shape
    rows = x.float().contiguous()
    out = torch.empty(*x.shape[:-1], height)
    offset = None if bias is None else bias.float().contiguous()
    product = Int8Product(
        rows=rows.numel() // width,
        in_=width,
        out=height,
        x=rows.data_ptr(),
        bias=None if offset is None else offset.data_ptr(),
        y=out.data_ptr(),
        **{name: tensor.data_ptr() for name, tensor in given.items()},
    )
    assert made is not None
    made.multiply(ctypes.byref(product), torch.get_num_threads())
    return out
