"""Room 3, core: keys and values that were computed once and are kept.

Layers are counted by depth of execution, so that a block that runs twelve times keeps twelve.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Cache:
    """What a decoder remembers of the tokens it has read.

    Storage grows by doubling, so that appending a token costs no copy of the past. The keys and
    values of cross-attention are computed once, and stay.

    With a `limit` it is a memory: only the newest so many slots are kept, and of each pass the
    first `reuse` tokens alone (None: all of them). A text in pieces is then read as a long one
    that forgets; without a limit it is read as if it came whole.
    """

    def __init__(self, limit: int | None = None, reuse: int | None = None) -> None:
        self.limit, self.reuse = limit, reuse
        self.length = 0
        self.mask: Tensor | None = None  # [batch, length]; None while every token was real
        self.documents: Tensor | None = None  # [batch, length]
        self.segments: Tensor | None = None  # [batch, length]
        self.positions: Tensor | None = None  # [batch or 1, 1]: the next token's position
        self.memory_mask: Tensor | None = None
        self._self: dict[int, tuple[Tensor, Tensor]] = {}
        self._cross: dict[int, tuple[Tensor, Tensor]] = {}

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

    @property
    def has_memory(self) -> bool:
        return bool(self._cross)

    def advance(
        self,
        positions: Tensor,
        mask: Tensor | None,
        documents: Tensor | None,
        segments: Tensor | None,
        blanks: int,
    ) -> None:
        """After a pass: the new tokens have become the past. All but `positions`, which are those
        of the new tokens, cover all slots by now."""
        new = positions.shape[1]
        end = self.length + blanks + (new if self.reuse is None else min(new, self.reuse))
        if self.limit is not None:  # an earlier text counts as segment 0 (XLNet)
            segments = None
        kept = slice(0 if self.limit is None else max(0, end - self.limit), end)
        if kept.start or self.reuse is not None:
            self._self = {i: (k[:, :, kept], v[:, :, kept]) for i, (k, v) in self._self.items()}
        self.length = kept.stop - kept.start
        self.mask, self.documents, self.segments = (
            None if x is None else x[:, kept] for x in (mask, documents, segments)
        )
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
        self.mask, self.documents = pick(self.mask), pick(self.documents)
        self.segments = pick(self.segments)
        self.positions, self.memory_mask = pick(self.positions), pick(self.memory_mask)


def _grown(old: Tensor | None, new: Tensor, length: int) -> Tensor:
    batch, heads, added, dim = new.shape
    capacity = max(2 * length, length + added, 64)
    storage = new.new_empty(batch, heads, capacity, dim)
    if old is not None:
        storage[:, :, :length] = old[:, :, :length]
    return storage
