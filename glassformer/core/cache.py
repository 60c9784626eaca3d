"""Room 3, core: what was computed once and is kept: keys and values, or a state that walks on.

Layers are counted by depth of execution, so that a block that runs twelve times keeps twelve.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Cache:
    """What a decoder remembers of the tokens it has read.

    Storage grows by doubling, so that appending a token costs no copy of the past. The keys and
    values of cross-attention are computed once, and stay.
    """

    def __init__(self) -> None:
        self.length = 0
        self.mask: Tensor | None = None  # [batch, length]; None while every token was real
        self.documents: Tensor | None = None  # [batch, length]
        self.positions: Tensor | None = None  # [batch or 1, 1]: the next token's position
        self.memory_mask: Tensor | None = None
        self._self: dict[int, tuple[Tensor, Tensor]] = {}
        self._cross: dict[int, tuple[Tensor, Tensor]] = {}
        self._state: dict[int, tuple[Tensor, ...]] = {}

    def append(self, depth: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Adds new keys and values of [batch, head, position, dim]; returns all so far."""
        end = self.length + k.shape[2]
        held = self._self.get(depth)
        if held is None or held[0].shape[2] < end:
            held = (
                _grown(held and held[0], k, self.length),
                _grown(held and held[1], v, self.length),
            )
            self._self[depth] = held
        keys, values = held
        keys[:, :, self.length : end] = k
        values[:, :, self.length : end] = v
        return keys[:, :, :end], values[:, :, :end]

    def cross(self, depth: int) -> tuple[Tensor, Tensor] | None:
        return self._cross.get(depth)

    def keep_cross(self, depth: int, k: Tensor, v: Tensor) -> None:
        self._cross[depth] = (k, v)

    def state(self, depth: int) -> tuple[Tensor, ...] | None:
        """What a layer without keys and values remembers; [batch, ...] each."""
        return self._state.get(depth)

    def keep_state(self, depth: int, state: tuple[Tensor, ...]) -> None:
        self._state[depth] = state

    @property
    def has_memory(self) -> bool:
        return bool(self._cross)

    def advance(self, mask: Tensor | None, positions: Tensor, documents: Tensor | None) -> None:
        """After a pass: the new tokens have become the past. `mask` covers all slots by now."""
        self.length += positions.shape[1]
        self.mask = mask
        self.documents = documents
        newest = positions.amax(-1, keepdim=True)
        if self.positions is not None:
            newest = torch.maximum(newest, self.positions - 1)
        self.positions = newest + 1

    def select(self, rows: Tensor) -> None:
        """Keeps, drops or repeats rows of the batch, as beam search does."""

        def pick(x: Tensor | None) -> Tensor | None:
            return x if x is None or x.shape[0] == 1 != len(rows) else x.index_select(0, rows)

        for held in (self._self, self._cross):
            for depth, (k, v) in held.items():
                held[depth] = (k.index_select(0, rows), v.index_select(0, rows))
        for depth, state in self._state.items():
            self._state[depth] = tuple(part.index_select(0, rows) for part in state)
        self.mask, self.documents = pick(self.mask), pick(self.documents)
        self.positions, self.memory_mask = pick(self.positions), pick(self.memory_mask)


def _grown(old: Tensor | None, new: Tensor, length: int) -> Tensor:
    batch, heads, added, dim = new.shape
    capacity = max(2 * length, length + added, 64)
    storage = new.new_empty(batch, heads, capacity, dim)
    if old is not None:
        storage[:, :, :length] = old[:, :, :length]
    return storage
