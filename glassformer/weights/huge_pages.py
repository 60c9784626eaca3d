"""Memory in huge pages, for data that is read completely for every token.

Address translation for small pages takes about a tenth of the time of such a read.
"""

from __future__ import annotations

import mmap
import sys
import threading

import torch
from torch import Tensor

from glassformer.rounding import round_up

PAGE = 2**21
SLAB = 16 * PAGE  # allocated at once; pages that are never written cost nothing
LINE = 64


class HugeBuffer:
    """Memory from which tensors are allocated one after the other.

    The tensors keep the memory alive.
    """

    def __init__(self, size: int) -> None:
        self.size = round_up(size, SLAB) + PAGE
        self.memory = mmap.mmap(-1, self.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.memory.madvise(mmap.MADV_HUGEPAGE)
        self.at = -torch.frombuffer(self.memory, dtype=torch.uint8).data_ptr() % PAGE

    def take(self, size: int) -> Tensor | None:
        """Allocates `size` bytes, or returns None if fewer are left."""
        begin = self.at
        if begin + size > self.size:
            return None
        self.at += size + -size % LINE
        return torch.frombuffer(self.memory, dtype=torch.uint8, count=size, offset=begin)


_last: list[HugeBuffer] = []
_lock = threading.Lock()


def empty(size: int) -> Tensor:
    """Returns an uninitialized uint8 tensor of `size` bytes, in huge pages on Linux."""
    if not sys.platform.startswith("linux"):
        return torch.empty(size, dtype=torch.uint8)
    with _lock:
        taken = _last[0].take(size) if _last else None
        if taken is None:
            _last[:] = [HugeBuffer(size)]
            taken = _last[0].take(size)
    assert taken is not None
    return taken
