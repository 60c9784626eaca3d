"""The structures of ops.h, for ctypes. Their fields have the same names and order."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_float, c_int32, c_int64, c_void_p

import torch

EMBED, NORM, LINEAR, WRITE, ATTEND = range(5)
ALL, SELECT, SELECTED = range(3)
FLOAT, BFLOAT, INT8, INT4 = range(4)
FORMS = {torch.float32: FLOAT, torch.bfloat16: BFLOAT}
NO_LIMIT = 2**30


class NormNumbers(ctypes.Structure):
    """The scale and shift of a norm."""

    _fields_ = (("scale", c_void_p), ("shift", c_void_p), ("eps", c_float), ("centered", c_int32))


class CppOp(ctypes.Structure):
    """An operation with the addresses of its tensors."""

    _fields_ = (
        *((name, c_int32) for name in ("kind", "form", "activation", "gated", "which_rows")),
        *((name, c_int32) for name in ("heads", "key_heads", "dim", "rotary_dim", "pairs")),
        *((name, c_int32) for name in ("left", "dilation", "window_block", "cross")),
        *((name, c_float) for name in ("factor", "cap")),
        *((name, c_int64) for name in ("in_", "out")),
        *((name, c_void_p) for name in ("weight", "scale", "bias", "positions", "segments")),
        *((name, c_void_p) for name in ("cos", "sin", "biases")),
        *((name, NormNumbers) for name in ("norm", "key_norm")),
        *((name, c_void_p) for name in ("source", "add", "middle", "target", "keys", "values")),
        ("capacity", c_int64),
        *((name, c_void_p) for name in ("blocks", "block_sums")),
    )


class StepRows(ctypes.Structure):
    """The rows of a step."""

    _fields_ = (
        *((name, c_int32) for name in ("rows", "num_selected")),
        *(
            (name, POINTER(c_int32))
            for name in ("token", "position", "line", "slot", "source_line", "source_length")
        ),
        ("selected", POINTER(c_int32)),
    )
