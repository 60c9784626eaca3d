"""Decoding steps on a GPU, recorded as CUDA graphs.

With storage of a fixed shape the whole step is one CUDA graph, which costs the host one launch
instead of hundreds; if compiled, its kernels are also fused. Rows that leave the batch remain as
unused rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.core import Cache, Transformer
from glassformer.core.linear import Linear
from glassformer.core.pass_context import PassContext
from glassformer.generate.backends.triton.step import TritonStep
from glassformer.generate.backends.triton.support import is_supported, supported_program
from glassformer.generate.kernels import attend_newest, prepare
from glassformer.generate.runner import Runner, last_logits, padded
from glassformer.generate.slots import PrefillCache, StaticCache, with_room
from glassformer.generate.strategy import GenerationRequest
from glassformer.spec import AlibiSpec, AttentionPattern, BlockSpec, RotarySpec, T5BiasSpec

PAGE = 64  # capacity is a multiple of it, so that similar lengths share a recording
LENGTH = 32  # prompts are padded to a multiple of it, for the same reason
LONGEST = 512  # longer prompts are not recorded: launches take little of their time


def fits(net: Transformer) -> bool:
    """Returns whether a step of this decoder can be recorded: its past is keys and values only."""
    stack = net.spec.decoder
    return (
        stack is not None
        and stack.memory is None
        and all(
            isinstance(layer, BlockSpec)
            and isinstance(layer.pattern, AttentionPattern)
            and (layer.pattern.right, layer.pattern.block) == (0, None)
            and layer.attention.compression_factor is None
            and isinstance(layer.position, RotarySpec | T5BiasSpec | AlibiSpec | None)
            for layer in stack.blocks
        )
    )


def has_kernel(net: Transformer) -> bool:
    """Returns whether `attend_newest` supports the attention of every layer."""
    assert net.spec.decoder is not None
    blocks = net.spec.decoder.attention_blocks
    return all(
        block.attention.head_dim in (16, 32, 64, 128, 256)
        and isinstance(block.pattern, AttentionPattern)
        and block.pattern.dilation == 1
        for block in blocks
    )


def decode(net: Transformer, tokens: Tensor, slots: StaticCache) -> Tensor:
    """Runs the decoder on one token per row; returns the next-token logits, [row, token]."""
    assert net.decoder is not None
    ctx = PassContext(
        stack="decoder",
        q_slot=slots.next,
        k_slot=slots.places,
        q_pos=slots.position,
        key_mask=slots.real,
        encoder_attention_mask=slots.encoder_attention_mask,
        cache=slots,
        preallocated=True,
        decode_kernel=attend_newest if has_kernel(net) else None,
    )
    hidden = net.decoder(tokens, ctx)
    head = net.spec.lm_head
    assert head is not None
    logits: Tensor = net.heads[head.name](hidden, None)[:, -1].float()
    slots.next.add_(1)
    slots.position.add_(1)
    return logits


class StaticRunner(Runner):
    """Runner with recorded steps, and recorded prefills for common prompt lengths."""

    def __init__(
        self,
        net: Transformer,
        *,
        rows: int,
        chunk: int | None = None,
        compiled: bool = False,
    ) -> None:
        super().__init__(net, chunk=chunk)
        self.rows = rows
        self.live = 0
        self.slots: StaticCache | None = None
        self.tokens = torch.zeros(rows, 1, dtype=torch.long, device=self.device)
        self.order = torch.arange(rows, device=self.device)
        self.fused: TritonStep | None = None
        self.fuses = is_supported(net)
        self.readings: dict[tuple[int, bool], RecordedPrefill] = {}
        self.side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        self.one: Callable[..., Any] = self.work
        if compiled and not self.fuses:
            self.one = torch.compile(self.work, fullgraph=True, dynamic=False)
        for module in net.modules():
            if isinstance(module, Linear) and "weight" in module._parameters:  # not quantized
                prepare(module)

    def work(self, net: Transformer, tokens: Tensor, slots: StaticCache) -> Tensor:
        return decode(net, tokens, slots) if self.fused is None else self.fused(tokens)

    def read(self, requests: Sequence[GenerationRequest], width: int) -> Tensor:
        length = self.recordable(requests, width)
        known = self.prefix_cache is not None and self.prefix_cache.helps(
            [r.prompt for r in requests]
        )
        if length is not None and not known:
            return self.play(requests, length)
        if self.slots is not None and self.live:
            self.cache = self.slots.lifted(self.order[: self.live])
        logits = super().read(requests, width)
        self.settle(requests)
        return logits

    def recordable(self, requests: Sequence[GenerationRequest], width: int) -> int | None:
        """Returns the padded length for a recorded prefill of these prompts, or None."""
        if self.live or width > 1 or self.chunk is not None or requests[0].source is not None:
            return None
        length = -(-max(len(request.prompt) for request in requests) // LENGTH) * LENGTH
        assert self.net.spec.decoder is not None and self.net.decoder is not None
        if self.net.decoder.active_wrapper is not None:  # the adapter adds tokens to the prompt
            return None
        table = self.net.spec.decoder.embed.position
        return length if length <= (LONGEST if table is None else table.length) else None

    def play(self, requests: Sequence[GenerationRequest], length: int) -> Tensor:
        longest = length + max(request.limit for request in requests)
        if self.slots is None or self.slots.capacity < longest:
            self.slots = StaticCache.empty(self.net, self.rows, -(-longest // PAGE) * PAGE)
            self.record()
        self.live, self.slots.length = len(requests), length
        spare = [(0,)] * (self.rows - self.live)
        tokens, mask = padded([*(r.prompt for r in requests), *spare], self.device, "left")
        short = length - tokens.shape[1]
        if short:
            mask = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
            tokens, mask = F.pad(tokens, (short, 0)), F.pad(mask, (short, 0))
        key = length, mask is not None
        if key not in self.readings:
            self.readings[key] = RecordedPrefill(self, *key)
        return self.readings[key](tokens, mask)[: self.live]

    def settle(self, requests: Sequence[GenerationRequest]) -> None:
        """Copies the prefilled cache into the static one, which is reused if possible."""
        assert self.cache is not None
        cache = with_room(self.cache, self.slots, requests[0])
        self.live, self.cache = cache.batch_size, None
        longest = cache.length + max(request.limit for request in requests)
        if self.slots is None or not self.slots.holds(cache, longest):
            self.slots = StaticCache(cache, self.rows, -(-longest // PAGE) * PAGE)
            self.record()
        self.slots.lay(cache)

    def record(self) -> None:
        assert self.slots is not None
        slots = self.slots
        self.readings.clear()
        self.fused = None
        if self.fuses:
            self.fused = TritonStep(self.net, supported_program(self.net), slots)

        def step() -> Any:
            slots.next.zero_()
            slots.position.zero_()
            return self.one(self.net, self.tokens, slots)

        self.warm_up(step, 3)
        slots.next.zero_()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.side):
            self.result = self.one(self.net, self.tokens, slots)

    def warm_up(self, work: Callable[[], Any], times: int) -> None:
        """Runs work eagerly before it is recorded, so that everything is initialized.

        One stream serves all recordings, because every stream gets a workspace of its own.
        """
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            for _ in range(times):
                work()
        torch.cuda.current_stream().wait_stream(self.side)

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

    def held(self) -> Cache:
        assert self.slots is not None
        return self.slots.lifted(self.order[: self.live])


class RecordedPrefill:
    """Recorded prefill of prompts of one length into free slots.

    It shares the memory pool of the recorded step, because the two never run at the same time.
    """

    def __init__(self, runner: StaticRunner, length: int, is_padded: bool) -> None:
        assert runner.slots is not None
        self.net, self.slots = runner.net, runner.slots
        self.tokens = torch.zeros(runner.rows, length, dtype=torch.long, device=runner.device)
        self.mask = torch.ones_like(self.tokens, dtype=torch.bool) if is_padded else None
        runner.warm_up(self.work, 1)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=runner.graph.pool(), stream=runner.side):
            self.logits = self.work()

    def work(self) -> Tensor:
        cache = PrefillCache(self.slots)
        out = self.net.decode(self.tokens, self.mask, cache=cache, logits_to_keep=1)
        cache.settle()
        return last_logits(out)

    def __call__(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        self.tokens.copy_(tokens)
        if self.mask is not None and mask is not None:
            self.mask.copy_(mask)
        self.graph.replay()
        return self.logits
