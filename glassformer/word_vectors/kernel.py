"""Interface to the compiled kernel.cpp: its structures, field by field."""

from __future__ import annotations

from ctypes import CDLL, POINTER, Structure, c_float, c_int32, c_int64, c_uint64, c_void_p
from pathlib import Path

from glassformer.native import library
from glassformer.rounding import round_up

LANES = 8  # as in kernel.cpp: row widths are multiples of it


class KernelWords(Structure):
    """Arguments of word2vec training, as in kernel.cpp."""

    _fields_ = (
        *((name, c_void_p) for name in ("ids", "bounds", "keep", "threshold", "alias")),
        *((name, c_void_p) for name in ("inputs", "outputs")),
        ("key", c_uint64),
        ("words", c_int64),
        *((name, c_int32) for name in ("width", "window", "negative", "mean")),
    )


class Pairs(Structure):
    """Arguments of GloVe training, as in kernel.cpp."""

    _fields_ = (
        *((name, c_void_p) for name in ("first", "second", "wanted", "weight", "order")),
        *((name, c_void_p * 2) for name in ("tables", "squares", "biases")),
        ("width", c_int32),
        ("rate", c_float),
    )


def kernel() -> CDLL | None:
    """Returns the compiled kernel, or None if it cannot be compiled.

    steps.py does the same, more slowly.
    """
    made = library(Path(__file__).with_name("kernel.cpp"))
    if made is not None:
        made.train.argtypes = (POINTER(KernelWords), c_int64, c_int64, c_uint64, c_float)
        made.train.restype = None
        made.regress.argtypes = (POINTER(Pairs), c_int64, c_int64)
        made.regress.restype = None
    return made


def padded(size: int) -> int:
    """Returns the width of a row: `size` rounded up to a multiple of `LANES`."""
    return round_up(size, LANES)
