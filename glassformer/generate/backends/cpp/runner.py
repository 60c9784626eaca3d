"""Decoding steps on a CPU that step.cpp executes instead of the modules.

Each row has a line of its own in the key-value store, without padding, and leaves it free when it
ends. Rows of the same request share the keys and values of cross-attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.core import Cache, Transformer
from glassformer.core.block import Block
from glassformer.generate.backends.cpp.step import CppStep, KeyValueStore, StepInput
from glassformer.generate.backends.cpp.support import supported_program
from glassformer.generate.encoded_source import EncodedSource
from glassformer.generate.prefix import CachedPrefix, Ids, common, longest
from glassformer.generate.program import KeyValueShape
from glassformer.generate.runner import Runner, joined
from glassformer.generate.strategy import GenerationRequest
from glassformer.weights.quantization import is_quantized

PAGE = 64  # the slots of a store are a multiple of it
ROWS = 16  # maximum number of rows
SHORT = 32  # prompts of at most so many tokens are read faster as rows than by torch


class SourceLine(NamedTuple):
    """Where the keys and values of an encoder's output are stored."""

    line: int
    length: int


NO_SOURCE = SourceLine(0, 0)


class PromptRow(NamedTuple):
    """A token of a prompt as a row; `prompt` is the prompt's index at its last token."""

    input: StepInput
    prompt: int | None


class CppRunner(Runner):
    """Runner that executes decoding steps with a `CppStep`.

    It also reads the prompts of quantized models and of encoder-decoders. Quantized layers round
    their inputs, so that the smallest difference, as between one prompt and a padded batch of them,
    becomes a large one; here the numbers of a row depend on nothing but its own tokens.
    """

    def __init__(self, net: Transformer, *, rows: int, chunk: int | None = None) -> None:
        super().__init__(net, chunk=chunk)
        self.program = supported_program(net)
        self.rows = rows
        self.lines: list[int] = []  # line of every row
        self.lengths: list[int] = []  # tokens of every row in the store
        self.positions: list[int] = []  # position of the next token of every row
        self.sources: list[SourceLine] = []
        self.store: KeyValueStore | None = None
        self.source_store: KeyValueStore | None = None
        self.compiled: CppStep | None = None
        self.quantized = is_quantized(net)
        with torch.inference_mode(False), torch.no_grad():  # the model may be trained again
            for weight in net.parameters():
                if not weight.is_contiguous():  # a file may store it transposed
                    weight.data = weight.detach().contiguous()

    def read(self, requests: Sequence[GenerationRequest], width: int) -> Tensor:
        sources = self.read_sources(requests)
        self.reserve(max(len(request.prompt) + request.limit for request in requests))
        lines = self.free_lines()[: len(requests)]
        prompts = [request.prompt for request in requests]
        short = sum(map(len, prompts)) <= SHORT
        if short or self.quantized or self.program.cross_attention:
            logits = self.read_as_rows(prompts, lines, sources)
        else:
            logits = super().read(requests, 1)
            self.take_cache(lines)
        live = len(self.lines)
        self.lines += lines
        self.lengths += map(len, prompts)
        self.positions += (sum(map(self.counts, prompt)) for prompt in prompts)
        self.sources += sources
        if width > 1:
            wide = [row for row in range(len(requests)) for _ in range(width)]
            self.reorder([*range(live), *(live + row for row in wide)])
            logits = logits[wide]
        return logits

    def step(self, parents: Tensor, tokens: Tensor) -> Tensor:
        rows = parents.tolist()
        if rows != list(range(len(self.lines))):
            self.reorder(rows)
        assert self.compiled is not None
        inputs = [
            self.input(token, self.positions[row], self.lines[row], self.lengths[row], source)
            for row, (token, source) in enumerate(zip(tokens.tolist(), self.sources, strict=True))
        ]
        logits = self.compiled.run(inputs, range(len(rows)))
        self.lengths = [length + 1 for length in self.lengths]
        self.positions = [
            position + self.counts(row.token)
            for position, row in zip(self.positions, inputs, strict=True)
        ]
        return logits

    def forget(self) -> None:
        self.lines, self.lengths, self.positions, self.sources = [], [], [], []

    def held(self) -> Cache:
        """Returns the cache of the only row, in the form the modules use."""
        assert self.store is not None
        (line,), cache, dtype = self.lines, Cache(), next(self.net.parameters()).dtype
        dtype = torch.float32 if self.quantized else dtype  # it is read again without rounding
        (cache.length,) = self.lengths
        cache._self = {
            depth: (keys[line, None].to(dtype), values[line, None].to(dtype))
            for depth, (keys, values) in enumerate(self.store.layers)
        }
        return cache

    # --- rows ----------------------------------------------------------------------------------

    def counts(self, token: int) -> bool:
        """Returns whether a token takes a position."""
        return token != self.program.uncounted_token

    def input(
        self, token: int, position: int, line: int, slot: int, source: SourceLine
    ) -> StepInput:
        if not self.counts(token):
            position = self.program.uncounted_position
        return StepInput(token, position, line, slot, *source)

    def free_lines(self) -> list[int]:
        taken = set(self.lines)
        return [line for line in range(self.rows) if line not in taken]

    def reorder(self, parents: Sequence[int]) -> None:
        """Reorders rows: the first child of a row takes over its line, the others get copies."""
        assert self.store is not None
        lines = [self.lines[row] for row in parents]
        free = [line for line in range(self.rows) if line not in set(lines)]
        self.lengths = [self.lengths[row] for row in parents]
        self.positions = [self.positions[row] for row in parents]
        self.sources = [self.sources[row] for row in parents]
        self.lines = []
        for line, length in zip(lines, self.lengths, strict=True):
            own = line
            if line in self.lines:
                own = free.pop()
                self.store.copy(line, own, length)
            self.lines.append(own)

    # --- prompts -------------------------------------------------------------------------------

    def read_as_rows(
        self, prompts: Sequence[Ids], lines: Sequence[int], sources: Sequence[SourceLine]
    ) -> Tensor:
        """Reads the tokens of all prompts as rows; returns the logits after the last of each."""
        assert self.compiled is not None and self.store is not None
        logits = self.compiled.logits.new_empty(len(prompts), self.compiled.logits.shape[1])
        rows: list[PromptRow] = []
        for number, (prompt, line) in enumerate(zip(prompts, lines, strict=True)):
            begin = 0
            if self.prefix_cache is not None:
                begin, text = longest(prompt[:-1], self.prefix_cache.known())
                twins = [common(prompt[:-1], other) for other in prompts[:number]]
                most = max(twins, default=0)
                if most > begin and most >= self.prefix_cache.least:
                    self.run_rows(rows, logits)
                    rows, begin = [], most
                    self.store.copy(lines[twins.index(most)], line, begin)
                elif text is not None and begin >= self.prefix_cache.least:
                    self.prefix_cache.touch(text)
                    for depth, held in text.cache._self.items():
                        for mine, other in zip(self.store.layers[depth], held, strict=True):
                            mine[line, :, :begin] = other[0, :, :begin]
                else:
                    begin = 0
            position = sum(map(self.counts, prompt[:begin]))
            for slot in range(begin, len(prompt)):
                row = self.input(prompt[slot], position, line, slot, sources[number])
                rows.append(PromptRow(row, None))
                position += self.counts(prompt[slot])
            rows[-1] = rows[-1]._replace(prompt=number)
        self.run_rows(rows, logits)
        if self.prefix_cache is not None:
            for prompt, line in zip(prompts, lines, strict=True):
                self.prefix_cache.keep(self.prefix_of(prompt, line))
        return logits

    def run_rows(self, rows: Sequence[PromptRow], logits: Tensor) -> None:
        """Reads tokens of prompts; writes the logits of the last ones to the prompts' rows."""
        assert self.compiled is not None
        if len(rows) > SHORT:
            self.compiled.prepare_many_rows()
        for begin in range(0, len(rows), self.compiled.rows):
            part = rows[begin : begin + self.compiled.rows]
            last = [i for i, row in enumerate(part) if row.prompt is not None]
            ends = logits.new_empty(len(last), logits.shape[1])  # a step overwrites its own
            self.compiled.run([row.input for row in part], last, ends)
            logits[[part[i].prompt for i in last]] = ends

    def prefix_of(self, ids: Ids, line: int) -> CachedPrefix:
        """Copies the keys and values of a line."""
        assert self.store is not None
        cache = Cache()
        cache.length = len(ids)
        cache._self = {
            depth: (keys[:, :, : len(ids)].clone(), values[:, :, : len(ids)].clone())
            for depth, layer in enumerate(self.store.layers)
            for keys, values in [layer[:, line : line + 1]]
        }
        return CachedPrefix(ids, cache)

    def take_cache(self, lines: Sequence[int]) -> None:
        """Copies the contents of the modules' cache to lines, without its padding."""
        cache, self.cache = self.cache, None
        assert self.store is not None and cache is not None
        counts = cache.real_tokens.sum(-1).tolist()
        for depth, held in cache._self.items():
            for mine, other in zip(self.store.layers[depth], held, strict=True):
                for row, (line, count) in enumerate(zip(lines, counts, strict=True)):
                    mine[line, :, :count] = other[row, :, cache.length - count : cache.length]

    # --- sources -------------------------------------------------------------------------------

    def read_sources(self, requests: Sequence[GenerationRequest]) -> list[SourceLine]:
        """Encodes the sources of requests, and stores their keys and values."""
        if not self.program.cross_attention:
            return [NO_SOURCE] * len(requests)
        taken = {source.line for source in self.sources}
        free = [line for line in range(self.rows) if line not in taken]
        given = [request.source for request in requests]
        if isinstance(given[0], EncodedSource):
            return [self.keep_encoded(*pair) for pair in zip(given, free, strict=False)]
        groups = [[source] for source in given] if self.quantized else [given]
        found: list[SourceLine] = []
        for group in groups:
            found += self.encode(group, free[len(found) :])
        return found

    def encode(self, sources: Sequence[object], lines: Sequence[int]) -> list[SourceLine]:
        inputs, mask = joined(sources, self.device)
        memory, stack = self.net.encode(inputs, mask), self.net.decoder
        assert stack is not None
        counts = [memory.shape[1]] * len(memory) if mask is None else mask.sum(-1).tolist()
        found = [SourceLine(*pair) for pair in zip(lines, counts, strict=False)]
        self.reserve_sources(max(counts))
        assert self.source_store is not None
        for layer, index in zip(self.source_store.layers, stack.spec.order, strict=True):
            block = stack.blocks[index]
            assert isinstance(block, Block)
            for mine, whole in zip(layer, block.cross.project(memory), strict=True):
                for row, source in enumerate(found):
                    mine[source.line, :, : source.length] = whole[row, :, : source.length]
        return found

    def keep_encoded(self, source: EncodedSource, line: int) -> SourceLine:
        found = SourceLine(line, source.cross[0][0].shape[2])
        self.reserve_sources(found.length)
        assert self.source_store is not None
        for depth, pair in source.cross.items():
            for mine, whole in zip(self.source_store.layers[depth], pair, strict=True):
                mine[line, :, : found.length] = whole[0]
        return found

    # --- memory --------------------------------------------------------------------------------

    def reserve_sources(self, longest: int) -> None:
        """Enlarges the store of sources for a longer one."""
        old = self.source_store
        if old is None or old.capacity < longest:
            self.source_store = enlarged(old, self.program.cross_attention, self.rows, longest)
            self.compiled = None

    def reserve(self, longest: int) -> None:
        """Enlarges the store for a longer text; new addresses need a new `CppStep`."""
        old = self.store
        if old is None or old.capacity < longest:
            self.store = enlarged(old, self.program.self_attention, self.rows, longest)
            self.compiled = None
        if self.compiled is None:
            assert self.store is not None
            rows = max(self.rows, SHORT)
            self.compiled = CppStep(self.net, self.program, rows, self.store, self.source_store)


def enlarged(
    old: KeyValueStore | None, layers: Sequence[KeyValueShape], lines: int, longest: int
) -> KeyValueStore:
    """Returns a store for texts of this length, with the contents of the old one."""
    new = KeyValueStore(layers, lines, -(-longest // PAGE) * PAGE)
    if old is not None:
        for mine, theirs in zip(new.layers, old.layers, strict=True):
            mine[..., : old.capacity, :] = theirs
    return new
