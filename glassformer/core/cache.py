"""The cache of a decoder: keys and values of attention, and states of recurrent layers.

Layers are indexed by execution depth, so a block that runs twelve times has twelve entries.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.errors import UnsupportedError


class Cache:
    """Keys and values of the tokens that a decoder has read.

    Storage grows by doubling, so appending a token does not copy the past. The keys and values of
    cross-attention are computed once and kept. With a `limit` the cache is a segment-level memory:
    it keeps only that many newest slots, without gradients; a text in pieces is then read as a long
    one whose beginning is forgotten. Without a limit a text in pieces is read as if it were whole.

    Args:
        limit: Maximum number of slots. None: no limit.
        reuse_length: Number of first tokens of each pass that are kept. None: all.
    """

    def __init__(self, limit: int | None = None, reuse_length: int | None = None) -> None:
        self.limit, self.reuse_length = limit, reuse_length
        self.length = 0
        self.mask: Tensor | None = None  # [batch, length]; None while all tokens are real
        self.document_ids: Tensor | None = None  # [batch, length]
        self.token_type_ids: Tensor | None = None  # [batch, length]
        self.next_position: Tensor | None = None  # [batch or 1, 1]: the next token's position
        self.encoder_attention_mask: Tensor | None = None
        self._self: dict[int, tuple[Tensor, Tensor]] = {}
        self._cross: dict[int, tuple[Tensor, Tensor]] = {}
        self._state: dict[int, tuple[Tensor, ...]] = {}

    def append(self, depth: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Appends the keys and values of new tokens.

        Args:
            depth: The layer in execution order.
            k: New keys, [batch, head, position, dim].
            v: New values, [batch, head, position, dim].

        Returns:
            All keys and values so far.
        """
        end = self.length + k.shape[2]
        held = self._self.get(depth)
        if held is None or held[0].shape[2] < end:
            old_k, old_v = (None, None) if held is None else held
            held = _grown(old_k, k, self.length), _grown(old_v, v, self.length)
            self._self[depth] = held
        keys, values = held
        keys[:, :, self.length : end] = k
        values[:, :, self.length : end] = v
        return keys[:, :, :end], values[:, :, :end]

    def cross(self, depth: int) -> tuple[Tensor, Tensor] | None:
        """Returns the keys and values of cross-attention, if they were computed.

        Args:
            depth: The layer in execution order.
        """
        return self._cross.get(depth)

    def set_cross(self, depth: int, k: Tensor, v: Tensor) -> None:
        """Stores the keys and values of cross-attention.

        Args:
            depth: The layer in execution order.
            k: Keys, [batch, head, position, dim].
            v: Values, [batch, head, position, dim].
        """
        self._cross[depth] = (k, v)

    def state(self, depth: int) -> tuple[Tensor, ...] | None:
        """Returns the state of a recurrent layer, if there is one; each tensor is [batch, ...].

        Args:
            depth: The layer in execution order.
        """
        return self._state.get(depth)

    def set_state(self, depth: int, state: tuple[Tensor, ...]) -> None:
        """Stores the state of a recurrent layer.

        Args:
            depth: The layer in execution order.
            state: The state; each tensor is [batch, ...].
        """
        self._state[depth] = state

    @property
    def has_cross_attention(self) -> bool:
        """Whether keys and values of cross-attention are stored."""
        return len(self._cross) > 0

    def advance(
        self,
        positions: Tensor,
        mask: Tensor | None,
        document_ids: Tensor | None,
        token_type_ids: Tensor | None,
        empty_memory_slots: int,
    ) -> None:
        """Makes the new tokens of a finished pass part of the past.

        Args:
            positions: Positions of the new tokens, [batch or 1, new].
            mask: True at real tokens of all slots, or None if all are real.
            document_ids: Documents of all slots in packed batches.
            token_type_ids: Segments of all slots.
            empty_memory_slots: The number of slots that the pass added in front of the new tokens.
        """
        new = positions.shape[1]
        kept_new = new if self.reuse_length is None else min(new, self.reuse_length)
        end = self.length + empty_memory_slots + kept_new
        kept = slice(0 if self.limit is None else max(0, end - self.limit), end)
        if self.limit is not None:
            token_type_ids = None  # earlier text counts as segment 0 (XLNet)
            for depth, (k, v) in self._self.items():
                self._self[depth] = k[:, :, kept].detach(), v[:, :, kept].detach()
        self.length = kept.stop - kept.start
        self.mask, self.document_ids, self.token_type_ids = (
            None if x is None else x[:, kept] for x in (mask, document_ids, token_type_ids)
        )
        next_position = positions.amax(-1, keepdim=True) + 1
        if self.next_position is not None:
            next_position = torch.maximum(next_position, self.next_position)
        self.next_position = next_position

    def join(self, other: Cache) -> None:
        """Appends the rows of another cache to the batch.

        All rows end in the same slot, so shorter ones are padded on the left.

        Args:
            other: The other cache.
        """
        length, both = max(self.length, other.length), (self, other)
        batch, more = self.batch_size, other.batch_size
        if any(c.mask is not None or c.length < length for c in both):
            masks = [F.pad(c.real_tokens, (length - c.length, 0), value=False) for c in both]
            self.mask = torch.cat(masks)
        if self._cross:
            self.encoder_attention_mask = self._joined_encoder_masks(other)
        for depth, held in other._self.items():
            pairs = zip(self._self[depth], held, strict=True)
            k, v = (_aligned(a, self.length, b, other.length) for a, b in pairs)
            self._self[depth] = (k, v)
        for depth, held in other._cross.items():
            pairs = zip(self._cross[depth], held, strict=True)
            k, v = (_stacked(a, b) for a, b in pairs)
            self._cross[depth] = (k, v)
        for depth, state in other._state.items():
            pairs = zip(self._state[depth], state, strict=True)
            self._state[depth] = tuple(torch.cat(pair) for pair in pairs)
        assert self.next_position is not None and other.next_position is not None
        self.next_position = torch.cat(
            (self.next_position.expand(batch, -1), other.next_position.expand(more, -1))
        )
        self.length = length

    def _joined_encoder_masks(self, other: Cache) -> Tensor:
        masks = []
        for c in (self, other):
            keys, _ = next(iter(c._cross.values()))
            all_real = torch.ones(c.batch_size, keys.shape[2], dtype=torch.bool, device=c.device)
            masks.append(all_real if c.encoder_attention_mask is None else c.encoder_attention_mask)
        longest = max(mask.shape[1] for mask in masks)
        return torch.cat([F.pad(x, (0, longest - x.shape[1]), value=False) for x in masks])

    @property
    def batch_size(self) -> int:
        """The number of rows."""
        return self._any.shape[0]

    @property
    def device(self) -> torch.device:
        """The device of the stored tensors."""
        return self._any.device

    @property
    def _any(self) -> Tensor:
        """One of the stored tensors, [batch, ...]."""
        return next(iter((*self._self.values(), *self._state.values())))[0]

    @property
    def real_tokens(self) -> Tensor:
        """True at real tokens, [batch, length]."""
        if self.mask is not None:
            return self.mask
        return torch.ones(self.batch_size, self.length, dtype=torch.bool, device=self.device)

    def crop(self, length: int) -> None:
        """Drops the last slots, e.g. after a rejected draft.

        Args:
            length: The number of slots to keep.
        """
        if length < self.length:
            if self._state:
                raise UnsupportedError(
                    "The cache of a recurrent model is a state, which cannot be cropped; process "
                    "the text again with a new cache."
                )
            assert self.next_position is not None
            gone = self.real_tokens[:, length:].sum(-1, keepdim=True)
            self.next_position = self.next_position - gone
            self.mask, self.document_ids, self.token_type_ids = (
                None if x is None else x[:, :length]
                for x in (self.mask, self.document_ids, self.token_type_ids)
            )
            self.length = length

    def select(self, rows: Tensor) -> None:
        """Keeps, drops or repeats rows of the batch, as in beam search.

        Args:
            rows: Indices of the rows, in the new order.
        """
        batch = self.batch_size

        def select(x: Tensor | None) -> Tensor | None:
            of_all = x is not None and x.shape[0] == 1 != batch
            return x if x is None or of_all else x.index_select(0, rows)

        for held in (self._self, self._cross):
            for depth, (k, v) in held.items():
                held[depth] = (k.index_select(0, rows), v.index_select(0, rows))
        for depth, state in self._state.items():
            self._state[depth] = tuple(part.index_select(0, rows) for part in state)
        self.mask, self.document_ids = select(self.mask), select(self.document_ids)
        self.token_type_ids = select(self.token_type_ids)
        self.next_position, self.encoder_attention_mask = (
            select(self.next_position),
            select(self.encoder_attention_mask),
        )


def _grown(old: Tensor | None, new: Tensor, length: int) -> Tensor:
    batch, heads, added, dim = new.shape
    capacity = max(2 * length, length + added, 64)
    storage = new.new_empty(batch, heads, capacity, dim)
    if old is not None:
        storage[:, :, :length] = old[:, :, :length]
    return storage


def _aligned(a: Tensor, a_length: int, b: Tensor, b_length: int) -> Tensor:
    """Stacks two storages of [batch, head, slot, dim] with their last slots aligned."""
    length = max(a_length, b_length)
    rows = len(a) + len(b)
    storage = a.new_zeros(rows, a.shape[1], max(2 * length, 64), a.shape[3])
    storage[: len(a), :, length - a_length : length] = a[:, :, :a_length]
    storage[len(a) :, :, length - b_length : length] = b[:, :, :b_length]
    return storage


def _stacked(a: Tensor, b: Tensor) -> Tensor:
    longest = max(a.shape[2], b.shape[2])
    return torch.cat([F.pad(x, (0, 0, 0, longest - x.shape[2])) for x in (a, b)])
