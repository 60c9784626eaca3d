"""Recorded decoding steps (CUDA graphs) of a model, which later calls replay.

A recording reads weights at their addresses. A change of their values takes effect, but after a
change of their storage, their type or a hook the recording would compute with what was there
before; it is dropped then.
"""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import Any

from torch import nn

from glassformer.core.versioning import walk_tensors

MOST = 4  # recordings of a model; each has its own key-value cache


class Recordings:
    """The recordings of a model that were used last."""

    def __init__(self) -> None:
        self.kept: dict[Hashable, tuple[Any, Any]] = {}  # most recently used last
        self.lock = Lock()

    def __reduce__(self) -> tuple[type[Recordings], tuple[()]]:
        """Makes a copy empty."""
        return Recordings, ()

    def take(self, net: nn.Module, key: Hashable) -> Any:
        """Removes a recording and returns it, or None; a concurrent call does not find it."""
        place = storage_of(net)
        with self.lock:
            self.kept = {k: one for k, one in self.kept.items() if one[1] == place}
            return self.kept.pop(key, (None, None))[0]

    def give(self, key: Hashable, recording: Any, place: Any) -> None:
        """Keeps a recording of a model whose storage was `place`."""
        with self.lock:
            self.kept.pop(key, None)
            self.kept[key] = recording, place
            while len(self.kept) > MOST:
                del self.kept[next(iter(self.kept))]

    def clear(self) -> None:
        with self.lock:
            self.kept = {}


def storage_of(net: nn.Module) -> Any:
    """Returns what a recording depends on: where and how weights are stored, settings and hooks."""
    tensors, settings = walk_tensors(net)
    return [(x.data_ptr(), x.device, x.dtype, x.shape, x.stride()) for x in tensors], settings
