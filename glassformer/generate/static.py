"""Generate room, static steps: on a GPU a step is recorded once and played back.

Storage of a fixed shape lets the whole step be a CUDA graph, which costs the host one launch
instead of hundreds; compiled, its kernels are fused besides. Rows that leave stay as dead rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.core import Cache, Net
from glassformer.core.context import Context
from glassformer.core.linear import Linear
from glassformer.generate.runner import Runner
from glassformer.generate.strategy import Request
from glassformer.spec import Alibi, Block, Buckets, Pattern, Rotary

PAGE = 64  # capacity is a multiple of it, so that texts of similar lengths share a recording


def fits(net: Net) -> bool:
    """Whether a step of this decoder can be recorded: it reads the past as keys and values only."""
    stack = net.spec.decoder
    return (
        stack is not None
        and stack.memory is None
        and all(
            isinstance(layer, Block)
            and isinstance(layer.pattern, Pattern)
            and (layer.pattern.right, layer.pattern.block) == (0, None)
            and layer.attention.compress is None
            and isinstance(layer.position, Rotary | Buckets | Alibi | None)
            for layer in stack.blocks
        )
    )


def has_kernel(net: Net) -> bool:
    """Whether the kernel for the newest token knows every layer's attention."""
    assert net.spec.decoder is not None
    blocks = net.spec.decoder.attention_blocks
    return all(
        block.attention.head_dim in (16, 32, 64, 128, 256)
        and isinstance(block.pattern, Pattern)
        and block.pattern.dilation == 1
        for block in blocks
    )


class Slots(Cache):
    """A cache in storage that never moves. Where the next token goes is a tensor on the device."""

    def __init__(self, like: Cache, rows: int, capacity: int) -> None:
        super().__init__()
        device = like.device
        self.capacity = capacity
        self.next = torch.zeros(1, dtype=torch.long, device=device)
        self.places = torch.arange(capacity, device=device)
        self.position = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self.real = torch.zeros(rows, capacity, dtype=torch.bool, device=device)
        for depth, (k, _) in like._self.items():
            both = k.new_zeros(2, rows, k.shape[1], capacity, k.shape[3])
            self._self[depth] = (both[0], both[1])
        for depth, (k, v) in like._cross.items():
            self._cross[depth] = (k.new_zeros(rows, *k.shape[1:]), v.new_zeros(rows, *v.shape[1:]))
        if like.memory_mask is not None:
            self.memory_mask = like.memory_mask.new_ones(rows, like.memory_mask.shape[1])

    def append(self, depth: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self._self[depth]
        keys.index_copy_(2, self.next, k)
        values.index_copy_(2, self.next, v)
        return keys, values

    def holds(self, cache: Cache, longest: int) -> bool:
        """Whether another batch can be laid here, as far as its shape goes."""
        same = all(
            (k.shape[2], k.dtype) == (self._cross[depth][0].shape[2], self._cross[depth][0].dtype)
            for depth, (k, _) in cache._cross.items()
        )
        mask = (self.memory_mask is None) == (cache.memory_mask is None)
        return self.capacity >= longest and same and mask

    def lay(self, cache: Cache) -> None:
        """Takes over what a growing cache holds, in the first rows."""
        assert cache.positions is not None
        rows, length = cache.batch, cache.length
        for depth, held in cache._self.items():
            for mine, other in zip(self._self[depth], held, strict=True):
                mine[:rows, :, :length] = other[:, :, :length]
        for depth, held in cache._cross.items():
            for mine, other in zip(self._cross[depth], held, strict=True):
                mine[:rows] = other
        if self.memory_mask is not None and cache.memory_mask is not None:
            self.memory_mask[:rows] = cache.memory_mask
        self.real.fill_(False)
        self.real[:rows, :length] = cache.real_tokens
        self.real[:, length:] = True  # of tokens to come; until then they lie ahead
        self.position[:rows] = cache.positions
        self.next.fill_(length)
        self.length = length

    def lifted(self, rows: Tensor) -> Cache:
        """Some rows as a growing cache."""
        cache = Cache()
        cache.length, cache.mask = self.length, self.real[rows, : self.length]
        cache.positions = self.position[rows]
        cache._self = {d: (k[rows], v[rows]) for d, (k, v) in self._self.items()}
        cache._cross = {d: (k[rows], v[rows]) for d, (k, v) in self._cross.items()}
        cache.memory_mask = None if self.memory_mask is None else self.memory_mask[rows]
        return cache

    def rearrange(self, parents: Tensor) -> None:
        """Every row becomes a copy of its parent, in place."""
        held = [x for pair in (*self._self.values(), *self._cross.values()) for x in pair]
        masks = [] if self.memory_mask is None else [self.memory_mask]
        for x in (*held, *masks, self.real, self.position):
            x.copy_(x.index_select(0, parents))


def decode(net: Net, tokens: Tensor, slots: Slots) -> Tensor:
    """One token a row through the decoder: the logits of what follows, [row, token]."""
    from glassformer.generate.kernels import attend_newest  # needs triton

    assert net.decoder is not None
    ctx = Context(
        stack="decoder",
        q_slot=slots.next,
        k_slot=slots.places,
        q_pos=slots.position,
        key_mask=slots.real,
        memory_mask=slots.memory_mask,
        cache=slots,
        spare=True,
        newest=attend_newest if has_kernel(net) else None,
    )
    hidden = net.decoder(tokens, ctx)
    head = next(h.name for h in net.spec.heads if h.pick == "each" and h.outputs is not None)
    logits: Tensor = net.heads[head](hidden, None)[:, -1].float()
    slots.next.add_(1)
    slots.position.add_(1)
    return logits


class StaticRunner(Runner):
    """`finish` turns a step's logits into what the step leaves behind; it is recorded too."""

    def __init__(
        self,
        net: Net,
        *,
        rows: int,
        chunk: int | None = None,
        compiled: bool = False,
    ) -> None:
        from glassformer.generate.kernels import prepare  # needs triton

        super().__init__(net, chunk=chunk)
        self.rows = rows
        self.live = 0
        self.slots: Slots | None = None
        self.tokens = torch.zeros(rows, 1, dtype=torch.long, device=self.device)
        self.order = torch.arange(rows, device=self.device)
        self.one: Callable[..., Any] = self.work
        if compiled:
            self.one = torch.compile(self.work, fullgraph=True, dynamic=False)
        for module in net.modules():
            if isinstance(module, Linear) and "weight" in module._parameters:  # not of codes
                prepare(module)

    def work(self, net: Net, tokens: Tensor, slots: Slots) -> Tensor:
        return decode(net, tokens, slots)

    def read(self, requests: Sequence[Request], width: int) -> Tensor:
        if self.slots is not None and self.live:
            self.cache = self.slots.lifted(self.order[: self.live])
        logits = super().read(requests, width)
        self.settle(max(request.limit for request in requests))
        return logits

    def settle(self, limit: int) -> None:
        """Lays out what was read, in storage that is there already if it can be."""
        cache = self.cache
        assert cache is not None
        self.live, self.cache = cache.batch, None
        longest = cache.length + limit
        if self.slots is None or not self.slots.holds(cache, longest):
            self.slots = Slots(cache, self.rows, -(-longest // PAGE) * PAGE)
            self.record()
        self.slots.lay(cache)

    def record(self) -> None:
        """Plays a step for once, and keeps it as a graph."""
        assert self.slots is not None
        slots = self.slots
        side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                slots.next.zero_()
                self.one(self.net, self.tokens, slots)
        torch.cuda.current_stream().wait_stream(side)
        slots.next.zero_()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.result = self.one(self.net, self.tokens, slots)

    def step(self, parents: Tensor, tokens: Tensor) -> Tensor:
        assert self.slots is not None
        count = len(parents)
        if count != self.live or not torch.equal(parents, self.order[:count]):
            whole = self.order.clone()
            whole[:count] = parents
            self.slots.rearrange(whole)
        self.live = count
        self.tokens[:count, 0] = tokens
        self.graph.replay()
        self.slots.length += 1
        result: Tensor = self.result
        return result[:count]

    def forget(self) -> None:
        self.live = 0
