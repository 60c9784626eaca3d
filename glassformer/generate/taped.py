"""Decoding steps on a CPU, executed from a `Tape` instead of through the modules.

Every row has its own line in the key-value store, without padding; rows that leave free theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from glassformer.core import Cache, Transformer
from glassformer.core.heads import Projection
from glassformer.core.linear import Linear
from glassformer.generate.build import library
from glassformer.generate.runner import Runner
from glassformer.generate.strategy import GenerationRequest
from glassformer.generate.tape import ACTIVATIONS, FORMS, Tape
from glassformer.spec import (
    AlibiSpec,
    AttentionPattern,
    BlockSpec,
    HeadSpec,
    RotarySpec,
    TokenEmbeddingSpec,
)
from glassformer.weights.quantization import QuantizedLinear

PAGE = 64  # the slots of the store are a multiple of it
ROWS = 16  # maximum number of rows
SHORT = 32  # for at most so many prompt tokens a tape is faster than torch


def knows(net: Transformer) -> bool:
    """Returns whether a tape can be built for the model in its current state."""
    spec = net.spec.decoder
    if net.encoder is not None or spec is None or not isinstance(spec.embed, TokenEmbeddingSpec):
        return False
    weight = next(net.parameters())
    return (
        (weight.device.type, weight.dtype in FORMS, net.training) == ("cpu", True, False)
        and knows_embedding(spec.embed)
        and (spec.convolution, spec.memory, spec.projection_width) == (None, None, None)
        and all(isinstance(layer, BlockSpec) and knows_block(layer) for layer in spec.blocks)
        and len({(b.attention.key_heads, b.attention.head_dim) for b in spec.attention_blocks}) == 1
        and knows_head(net.spec.heads[0])
        and all(knows_module(module) for module in net.modules())
        and library() is not None
    )


def knows_embedding(embed: TokenEmbeddingSpec) -> bool:
    table = embed.position
    return (
        (embed.embedding_size, embed.adaptive, embed.bag) == (None, None, None)
        and not (embed.segments or embed.zero_padding)
        and (table is None or (table.padding_idx is None and not table.every_layer))
    )


def knows_block(block: BlockSpec) -> bool:
    attention, pattern = block.attention, block.pattern
    return (
        block.cross is None
        and isinstance(pattern, AttentionPattern)
        and (pattern.right, pattern.dilation, pattern.block) == (0, 1, None)
        and (attention.score, attention.compression_factor, attention.separate_global_projections)
        == ("dot", None, False)
        and isinstance(block.position, RotarySpec | AlibiSpec | None)
        and block.norm.kind != "batch"
        and block.ffn.activation in ACTIVATIONS
    )


def knows_head(head: HeadSpec) -> bool:
    return (
        (head.pooling, head.norm, head.transform, head.adaptive) == ("each", None, None, None)
        and (head.scale, head.activation, head.num_weighted_layers, head.depth)
        == (1.0, "linear", 0, None)
        and head.num_outputs is not None
    )


def knows_module(module: nn.Module) -> bool:
    """Returns False for replaced, hooked or wrapped modules, which a tape cannot represent."""
    hooks = module._forward_hooks or module._forward_pre_hooks
    listens = hooks or getattr(module, "active_wrapper", None)
    plain = (Linear, QuantizedLinear, Projection)
    return not listens and (not isinstance(module, nn.Linear) or type(module) in plain)


class TapeRunner(Runner):
    """Runner that executes decoding steps from a `Tape`."""

    def __init__(self, net: Transformer, *, rows: int, chunk: int | None = None) -> None:
        super().__init__(net, chunk=chunk)
        self.rows = rows
        self.lines: list[int] = []  # line of every row
        self.lengths: list[int] = []
        self.store: Tensor | None = None
        self.tape: Tape | None = None
        with torch.inference_mode(False), torch.no_grad():  # the model may be trained again
            for weight in net.parameters():
                if not weight.is_contiguous():  # a file may store it transposed
                    weight.data = weight.detach().contiguous()

    def read(self, requests: Sequence[GenerationRequest], width: int) -> Tensor:
        self.make_room(max(len(request.prompt) + request.limit for request in requests))
        lines = self.free()[: len(requests)]
        if sum(len(request.prompt) for request in requests) <= SHORT:
            logits = self.read_taped([request.prompt for request in requests], lines)
        else:
            logits = super().read(requests, 1)
            self.lay(lines)
        live = len(self.lines)
        self.lines += lines
        self.lengths += [len(request.prompt) for request in requests]
        if width > 1:
            wide = [row for row in range(len(requests)) for _ in range(width)]
            self.follow([*range(live), *(live + row for row in wide)])
            logits = logits[wide]
        return logits

    def step(self, parents: Tensor, tokens: Tensor) -> Tensor:
        rows = parents.tolist()
        if rows != list(range(len(self.lines))):
            self.follow(rows)
        assert self.tape is not None
        logits = self.tape.play(tokens.tolist(), self.lines, self.lengths, range(len(rows)))
        self.lengths = [length + 1 for length in self.lengths]
        return logits

    def forget(self) -> None:
        self.lines, self.lengths = [], []

    def held(self) -> Cache:
        """Returns the cache of the only row, in the form the modules use."""
        assert self.store is not None
        (line,), cache, dtype = self.lines, Cache(), next(self.net.parameters()).dtype
        (cache.length,) = self.lengths
        cache._self = {
            depth: (keys[line, None].to(dtype), values[line, None].to(dtype))
            for depth, (keys, values) in enumerate(self.store)
        }
        return cache

    def free(self) -> list[int]:
        taken = set(self.lines)
        return [line for line in range(self.rows) if line not in taken]

    def follow(self, parents: Sequence[int]) -> None:
        """Reorders rows: the first child of a row takes over its line, the others get copies."""
        assert self.store is not None
        lines = [self.lines[row] for row in parents]
        free = [line for line in range(self.rows) if line not in set(lines)]
        self.lengths = [self.lengths[row] for row in parents]
        self.lines = []
        for line, length in zip(lines, self.lengths, strict=True):
            own = line
            if line in self.lines:
                own = free.pop()
                self.store[:, :, own, :, :length] = self.store[:, :, line, :, :length]
            self.lines.append(own)

    def read_taped(self, prompts: Sequence[Sequence[int]], lines: Sequence[int]) -> Tensor:
        """Reads the tokens of all prompts as rows; returns the logits after the last of each."""
        counts = [len(prompt) for prompt in prompts]
        tokens = [token for prompt in prompts for token in prompt]
        into = [line for line, count in zip(lines, counts, strict=True) for _ in range(count)]
        slots = [slot for count in counts for slot in range(count)]
        last = [end - 1 for end in accumulate(counts)]
        assert self.tape is not None
        logits = self.tape.logits.new_empty(len(last), self.tape.logits.shape[1])
        return self.tape.play(tokens, into, slots, last, logits)  # keeps those of a step

    def lay(self, lines: Sequence[int]) -> None:
        """Copies the contents of the growing cache, without its padding."""
        cache, self.cache = self.cache, None
        assert self.store is not None and cache is not None
        counts = cache.real_tokens.sum(-1).tolist()
        for depth, held in cache._self.items():
            for mine, other in zip(self.store[depth], held, strict=True):
                for row, (line, count) in enumerate(zip(lines, counts, strict=True)):
                    mine[line, :, :count] = other[row, :, cache.length - count : cache.length]

    def make_room(self, longest: int) -> None:
        """Enlarges the store for a longer text, and rebuilds the tape with the new addresses."""
        old = self.store
        if old is not None and old.shape[4] >= longest:
            return
        spec = self.net.spec.decoder
        assert spec is not None
        attention = spec.attention_blocks[0].attention
        capacity = -(-longest // PAGE) * PAGE
        lines = (len(spec.order), 2, self.rows, attention.key_heads, capacity)
        self.store = torch.empty(*lines, attention.head_dim)  # untouched memory is not committed
        if old is not None:
            self.store[..., : old.shape[4], :] = old
        self.tape = Tape(self.net, max(self.rows, SHORT), self.store)
