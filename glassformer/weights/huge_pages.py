"""Memory in large pages, for what is read as a whole for every token; to look up
one small page after the other takes a tenth of the time."""

from __future__ import annotations

import mmap
import sys

import torch
from torch import Tensor

PAGE = 2**21
SLAB = 16 * PAGE  # is asked for at once; what is not written to costs nothing
LINE = 64


class HugeBuffer:
    """Memory that tensors take one after the other; they hold it for as long as they live."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // SLAB) * SLAB + PAGE
        self.memory = mmap.mmap(-1, self.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.memory.madvise(mmap.MADV_HUGEPAGE)
        self.at = -torch.frombuffer(self.memory, dtype=torch.uint8).data_ptr() % PAGE

    def take(self, size: int) -> Tensor | None:
        """None where so many bytes are not left."""
        begin = self.at
        if begin + size > self.size:
            return None
        self.at += size + -size % LINE
        return torch.frombuffer(self.memory, dtype=torch.uint8, count=size, offset=begin)


_last: list[HugeBuffer] = []


def empty(size: int) -> Tensor:
    """So many bytes."""
    if not sys.platform.startswith("linux"):
        return torch.empty(size, dtype=torch.uint8)
    taken = _last[0].take(size) if _last else None
    if taken is None:
        _last[:] = [HugeBuffer(size)]
        taken = _last[0].take(size)
    assert taken is not None
    return taken
