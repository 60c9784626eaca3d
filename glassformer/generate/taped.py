"""Decoding steps on a CPU, executed from a `Tape` instead of through the modules.

Every row has its own line in the key-value store, without padding; rows that leave free theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from glassformer.core import Cache, Transformer
from glassformer.core.heads import Projection
from glassformer.core.linear import Linear
from glassformer.generate.build import library
from glassformer.generate.prefix import CachedPrefix, Ids, common, longest
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
from glassformer.weights.quantization import QuantizedLinear, is_quantized

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


class PromptRow(NamedTuple):
    """Token of a prompt on a line of the store.

    At the last token, `prompt` is the index of the prompt.
    """

    token: int
    line: int
    slot: int
    prompt: int | None


class TapeRunner(Runner):
    """Runner that executes decoding steps from a `Tape`.

    It also reads the prompts of a quantized model. The products round activations, so that the
    smallest difference, as between one prompt and a padded batch of them, becomes a large one; on a
    tape, the numbers of a row depend on nothing but its own tokens.
    """

    def __init__(self, net: Transformer, *, rows: int, chunk: int | None = None) -> None:
        super().__init__(net, chunk=chunk)
        self.rows = rows
        self.lines: list[int] = []  # line of every row
        self.lengths: list[int] = []
        self.store: Tensor | None = None
        self.tape: Tape | None = None
        self.quantized = is_quantized(net)
        with torch.inference_mode(False), torch.no_grad():  # the model may be trained again
            for weight in net.parameters():
                if not weight.is_contiguous():  # a file may store it transposed
                    weight.data = weight.detach().contiguous()

    def read(self, requests: Sequence[GenerationRequest], width: int) -> Tensor:
        self.make_room(max(len(request.prompt) + request.limit for request in requests))
        lines = self.free()[: len(requests)]
        if self.quantized or sum(len(request.prompt) for request in requests) <= SHORT:
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
        dtype = torch.float32 if self.quantized else dtype  # nothing is rounded that is read again
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

    def read_taped(self, prompts: Sequence[Ids], lines: Sequence[int]) -> Tensor:
        """Reads the tokens of all prompts as rows; returns the logits after the last of each."""
        assert self.tape is not None and self.store is not None
        logits = self.tape.logits.new_empty(len(prompts), self.tape.logits.shape[1])
        rows: list[PromptRow] = []
        for number, (prompt, line) in enumerate(zip(prompts, lines, strict=True)):
            begin = 0
            if self.shelf is not None:
                begin, text = longest(prompt[:-1], self.shelf.known())
                twins = [common(prompt[:-1], other) for other in prompts[:number]]
                most = max(twins, default=0)
                if most > begin and most >= self.shelf.least:
                    self.play(rows, logits)
                    rows, begin, twin = [], most, lines[twins.index(most)]
                    self.store[:, :, line, :, :begin] = self.store[:, :, twin, :, :begin]
                elif text is not None and begin >= self.shelf.least:
                    self.shelf.touch(text)
                    for depth, held in text.cache._self.items():
                        for mine, other in zip(self.store[depth], held, strict=True):
                            mine[line, :, :begin] = other[0, :, :begin]
                else:
                    begin = 0
            rows += [PromptRow(prompt[i], line, i, None) for i in range(begin, len(prompt))]
            rows[-1] = rows[-1]._replace(prompt=number)
        self.play(rows, logits)
        if self.shelf is not None:
            for prompt, line in zip(prompts, lines, strict=True):
                self.shelf.keep(self.text(prompt, line))
        return logits

    def play(self, rows: Sequence[PromptRow], logits: Tensor) -> None:
        """Reads tokens of prompts; writes the logits of the last ones to the prompts' rows."""
        assert self.tape is not None
        if len(rows) > SHORT:
            self.tape.read_blocks()
        for begin in range(0, len(rows), self.tape.rows):
            part = rows[begin : begin + self.tape.rows]
            last = [i for i, row in enumerate(part) if row.prompt is not None]
            tokens, lines = [row.token for row in part], [row.line for row in part]
            ends = self.tape.logits.new_empty(len(last), logits.shape[1])  # keeps those of a step
            self.tape.play(tokens, lines, [row.slot for row in part], last, ends)
            logits[[part[i].prompt for i in last]] = ends

    def text(self, ids: Ids, line: int) -> CachedPrefix:
        """Copies the keys and values of a line."""
        assert self.store is not None
        cache = Cache()
        cache.length = len(ids)
        cache._self = {
            depth: (keys[:, :, : len(ids)].clone(), values[:, :, : len(ids)].clone())
            for depth, (keys, values) in enumerate(self.store[:, :, line : line + 1])
        }
        return CachedPrefix(ids, cache)

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
