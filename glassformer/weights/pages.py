"""Room 5, weights: memory in large pages, for what is read as a whole for every token: to look up one
small page after the other takes a tenth of the time."""

from __future__ import annotations

import mmap
import sys

import torch
from torch import Tensor

PAGE = 2**21
SLAB = 16 * PAGE  # is asked for at once; what is not written to costs nothing
LINE = 64

_slab = torch.empty(0, dtype=torch.uint8)  # what is left of the last; tensors hold what they lie in


def empty(size: int) -> Tensor:
    """So many bytes, one after the other with those of the calls before."""
    global _slab
    if not sys.platform.startswith("linux"):
        return torch.empty(size, dtype=torch.uint8)
    if size > len(_slab):
        whole = -(-size // SLAB) * SLAB + PAGE
        memory = mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
        _slab = torch.frombuffer(memory, dtype=torch.uint8)
        _slab = _slab[-_slab.data_ptr() % PAGE :]
    taken, _slab = _slab[:size], _slab[size + -size % LINE :]
    return taken
