"""Compiles step.cpp at its first use."""

from __future__ import annotations

import ctypes
from pathlib import Path

from glassformer import native
from glassformer.weights import int4

SOURCE = Path(__file__).with_name("step.cpp")
HEADERS = (
    *(SOURCE.with_name("linear.h"), SOURCE.with_name("ops.h")),
    *(native.NUMBERS, *int4.HEADERS),
)


def library() -> ctypes.CDLL | None:
    """Returns the compiled library, or None without a working compiler."""
    return native.library(SOURCE, *HEADERS)
