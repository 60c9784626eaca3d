"""Key-value cache with storage of a fixed shape, for recorded steps."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.core import Cache, Transformer
from glassformer.generate.strategy import GenerationRequest
from glassformer.spec import BlockSpec

SOURCE = 32  # cross-attention inputs are padded to a multiple of it
LONGER = 4  # maximum ratio by which a recorded length may exceed the required one


class StaticCache(Cache):
    """Cache whose storage never moves. The next slot is a tensor on the device."""

    def __init__(self, like: Cache, rows: int, capacity: int) -> None:
        super().__init__()
        device = like.device
        self.capacity = capacity
        self.next = torch.zeros(1, dtype=torch.long, device=device)
        self.places = torch.arange(capacity, device=device)
        self.position = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self.begins = torch.zeros(rows, dtype=torch.long, device=device)  # first slot of each text
        self.real = torch.zeros(rows, capacity, dtype=torch.bool, device=device)
        for depth, (k, _) in like._self.items():
            both = k.new_zeros(2, rows, k.shape[1], capacity, k.shape[3])
            self._self[depth] = (both[0], both[1])
        for depth, (k, v) in like._cross.items():
            self._cross[depth] = (k.new_zeros(rows, *k.shape[1:]), v.new_zeros(rows, *v.shape[1:]))
        if like.encoder_attention_mask is not None:
            self.encoder_attention_mask = like.encoder_attention_mask.new_ones(
                rows, like.encoder_attention_mask.shape[1]
            )

    @classmethod
    def empty(cls, net: Transformer, rows: int, capacity: int) -> StaticCache:
        """Returns a cache for a decoder without cross-attention."""
        assert net.spec.decoder is not None
        like, weight = Cache(), next(net.parameters())
        for depth, index in enumerate(net.spec.decoder.order):
            block = net.spec.decoder.blocks[index]
            assert isinstance(block, BlockSpec)
            none = weight.new_empty(0, block.attention.key_heads, 0, block.attention.head_dim)
            like._self[depth] = (none, none)
        return cls(like, rows, capacity)

    def pair(self, depth: int) -> tuple[Tensor, Tensor]:
        """Returns a layer's keys and values, [row, key head, slot, dim]."""
        return self._self[depth]

    def append(self, depth: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self._self[depth]
        keys.index_copy_(2, self.next, k)
        values.index_copy_(2, self.next, v)
        return keys, values

    def holds(self, cache: Cache, longest: int) -> bool:
        """Returns whether the contents of another cache fit in the shape of this one."""
        same = all(
            (k.shape[2], k.dtype) == (self._cross[depth][0].shape[2], self._cross[depth][0].dtype)
            for depth, (k, _) in cache._cross.items()
        )
        mask = (self.encoder_attention_mask is None) == (cache.encoder_attention_mask is None)
        return self.capacity >= longest and same and mask

    def reads(self, source: int, padded: bool) -> bool:
        """Returns whether the cross-attention input has this length, with or without padding."""
        return source_length(self) == source and padded == (self.encoder_attention_mask is not None)

    def lay(self, cache: Cache) -> None:
        """Copies the contents of a growing cache into the first rows."""
        assert cache.next_position is not None
        rows, length = cache.batch_size, cache.length
        for depth, held in cache._self.items():
            for mine, other in zip(self._self[depth], held, strict=True):
                mine[:rows, :, :length] = other[:, :, :length]
        for depth, held in cache._cross.items():
            for mine, other in zip(self._cross[depth], held, strict=True):
                mine[:rows] = other
        if self.encoder_attention_mask is not None and cache.encoder_attention_mask is not None:
            self.encoder_attention_mask[:rows] = cache.encoder_attention_mask
        self.real.fill_(False)
        self.real[:rows, :length] = cache.real_tokens
        self.begins[:rows] = cache.real_tokens.int().argmax(-1)
        self.real[:, length:] = True  # future tokens; masked by causality until then
        self.position[:rows] = cache.next_position
        self.next.fill_(length)
        self.length = length

    def lifted(self, rows: Tensor) -> Cache:
        """Returns some rows as a growing cache."""
        cache = Cache()
        cache.length, cache.mask = self.length, self.real[rows, : self.length]
        cache.next_position = self.position[rows]
        cache._self = {d: (k[rows], v[rows]) for d, (k, v) in self._self.items()}
        cache._cross = {d: (k[rows], v[rows]) for d, (k, v) in self._cross.items()}
        cache.encoder_attention_mask = (
            None if self.encoder_attention_mask is None else self.encoder_attention_mask[rows]
        )
        return cache

    def rearrange(self, parents: Tensor) -> None:
        """Replaces every row by a copy of its parent, in place."""
        held = [x for pair in (*self._self.values(), *self._cross.values()) for x in pair]
        masks = [] if self.encoder_attention_mask is None else [self.encoder_attention_mask]
        for x in (*held, *masks, self.real, self.position, self.begins):
            x.copy_(x.index_select(0, parents))


class PrefillCache(Cache):
    """Writes prompts directly into an empty static cache: the prompt sees only itself."""

    def __init__(self, slots: StaticCache) -> None:
        super().__init__()
        self.slots = slots

    def append(self, depth: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        for mine, new in zip(self.slots.pair(depth), (k, v), strict=True):
            mine[:, :, : new.shape[2]] = new
        return k, v

    def settle(self) -> None:
        """Sets the lengths and positions of the static cache after the pass."""
        slots, length = self.slots, self.length
        assert self.next_position is not None
        slots.real.fill_(True)
        slots.begins.zero_()
        if self.mask is not None:
            slots.real[:, :length] = self.mask
            slots.begins.copy_(self.mask.int().argmax(-1))
        slots.position.copy_(self.next_position.expand_as(slots.position))
        slots.next.fill_(length)


def source_length(cache: Cache) -> int:
    """Returns the number of cross-attention slots; 0 without cross-attention."""
    return max((k.shape[2] for k, _ in cache._cross.values()), default=0)


def with_room(cache: Cache, slots: StaticCache | None, request: GenerationRequest) -> Cache:
    """Pads the cross-attention input of texts to the length that `slots` has, or to a new one.

    The new length is a multiple shared by many inputs, so that recordings can be reused.
    Spectrograms have a fixed length anyway.
    """
    length = source_length(cache)
    if not length or not isinstance(request.source, tuple | None):
        return cache
    known = 0 if slots is None else source_length(slots)
    room = -(-length // SOURCE) * SOURCE
    extra = (known if room <= known <= LONGER * room else room) - length
    if extra or (slots is not None and slots.encoder_attention_mask is not None):
        mask = cache.encoder_attention_mask
        if mask is None:
            mask = torch.ones(cache.batch_size, length, dtype=torch.bool, device=cache.device)
        cache.encoder_attention_mask = F.pad(mask, (0, extra))
        for depth, (k, v) in cache._cross.items():
            cache._cross[depth] = F.pad(k, (0, 0, 0, extra)), F.pad(v, (0, 0, 0, extra))
    return cache
