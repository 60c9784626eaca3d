"""Generate room, taped steps: on a CPU a step is played from a tape instead of walking the modules.

Every row has a line of its own in the store, without padding; rows that leave free theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.core import Cache, Net
from glassformer.generate.runner import Runner
from glassformer.generate.strategy import Request
from glassformer.generate.tape import Tape

PAGE = 64  # the store's lines are a multiple of it
ROWS = 16  # as many as a tape plays at once
SHORT = 32  # so many tokens of prompts a tape reads sooner than torch does


class TapeRunner(Runner):
    def __init__(self, net: Net, *, rows: int, chunk: int | None = None) -> None:
        super().__init__(net, chunk=chunk)
        self.rows = rows
        self.lines: list[int] = []  # of every row
        self.lengths: list[int] = []
        self.store: Tensor | None = None
        self.tape: Tape | None = None

    def read(self, requests: Sequence[Request], width: int) -> Tensor:
        self.make_room(max(len(request.prompt) + request.limit for request in requests))
        lines = self.free()[: len(requests)]
        if sum(len(request.prompt) for request in requests) <= SHORT:
            logits = self.read_taped([request.prompt for request in requests], lines)
        else:
            self.cache = None
            logits = super().read(requests, 1)
            assert self.cache is not None
            self.lay(self.cache, lines)
            self.cache = None
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

    def free(self) -> list[int]:
        taken = set(self.lines)
        return [line for line in range(self.rows) if line not in taken]

    def follow(self, parents: Sequence[int]) -> None:
        """The first to follow a row takes over its line, the others get copies."""
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
        """The tokens of all prompts as rows, some at a time; logits of the last of each."""
        rows = [
            (token, line, slot, slot == len(prompt) - 1)
            for prompt, line in zip(prompts, lines, strict=True)
            for slot, token in enumerate(prompt)
        ]
        found = []
        assert self.tape is not None
        for start in range(0, len(rows), ROWS):
            tokens, into, slots, last = zip(*rows[start : start + ROWS], strict=True)
            asked = [row for row, is_last in enumerate(last) if is_last]
            found.append(self.tape.play(tokens, into, slots, asked).clone())
        return torch.cat(found)

    def lay(self, cache: Cache, lines: Sequence[int]) -> None:
        """Takes over what a growing cache holds, without its padding."""
        assert self.store is not None
        counts = cache.real_tokens.sum(-1).tolist()
        for depth, held in cache._self.items():
            for mine, other in zip(self.store[depth], held, strict=True):
                for row, (line, count) in enumerate(zip(lines, counts, strict=True)):
                    mine[line, :, :count] = other[row, :, cache.length - count : cache.length]

    def make_room(self, longest: int) -> None:
        """A longer text than ever needs a longer store, and a tape with its addresses."""
        old = self.store
        if old is not None and old.shape[4] >= longest:
            return
        spec = self.net.spec.decoder
        assert spec is not None
        attention = spec.attention_blocks[0].attention
        capacity = -(-longest // PAGE) * PAGE
        lines = (len(spec.order), 2, self.rows, attention.key_heads, capacity)
        self.store = torch.zeros(*lines, attention.head_dim)
        if old is not None:
            self.store[..., : old.shape[4], :] = old
        self.tape = Tape(self.net, max(self.rows, ROWS), self.store)
