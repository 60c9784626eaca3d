"""Train room, data: how rows are made of stored examples. An epoch and a row's number come in, an
example that is a whole row goes out."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from glassformer.errors import GlassformerError
from glassformer.train.data.order import Numbers, Shuffle
from glassformer.train.data.store import Store
from glassformer.train.objectives.objective import Example

POOL = 4096
"""So many examples are packed together; more would hardly fill the rows better."""


class Rows(ABC):
    """`count` rows make an epoch, of `tokens` tokens; `all` rows one pass over everything."""

    count: int
    all: int
    tokens: int

    @abstractmethod
    def row(self, epoch: int, number: int) -> Example:
        """A row as an epoch has it."""

    def fixed(self, number: int) -> Example:
        """A row as an evaluation has it."""
        return self.row(0, number)


class Single(Rows):
    """An example is a row; the objective pads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.count = self.all = len(store)
        self.tokens = int(store.lengths().sum())

    def row(self, epoch: int, number: int) -> Example:
        return self.store[number]


class Stream(Rows):
    """All documents joined to a ring of tokens and cut into windows of equal length, from another
    start in every epoch. What is left over, less than a window, differs from epoch to epoch; an
    evaluation starts at the first token and has a short last window instead.

    A row has `beyond` more tokens, those with which the next one starts, and, under "before", up
    to `before` of those behind it. Where there are several documents, "documents" numbers them,
    unless attention may go `across`.
    """

    def __init__(
        self,
        store: Store,
        length: int,
        seed: int,
        *,
        beyond: int = 0,
        before: int = 0,
        across: bool = False,
    ) -> None:
        _check_parallel(store, "stream")
        total = store.size
        if total <= beyond:
            raise GlassformerError(
                f"The data has {total} tokens in all, too few to learn from; add text."
            )
        self.store, self.seed = store, seed
        self.length = min(length, total - beyond)
        self.beyond, self.before = beyond, before
        self.numbered = not across and store.documents > 1
        self.count = total // self.length
        self.all = -(-(total - beyond) // self.length)
        self.tokens = self.count * self.length

    def row(self, epoch: int, number: int) -> Example:
        start = (self._shift(epoch) + number * self.length) % self.store.size
        return self._window(start, start + self.length + self.beyond)

    def fixed(self, number: int) -> Example:
        start = number * self.length
        return self._window(start, min(start + self.length + self.beyond, self.store.size))

    def _shift(self, epoch: int) -> int:
        if self.store.size <= self.length + self.beyond:
            return 0
        return int(np.random.default_rng([self.seed, epoch]).integers(self.length))

    def _window(self, start: int, end: int) -> Example:
        """The ring's tokens from `start` up to `end`, which may lie behind where it closes."""
        store = self.store
        parts = [(start, min(end, store.size)), (0, end - store.size)][: 1 + (end > store.size)]
        row = _joined([store.slice(*part) for part in parts])
        if self.numbered:
            numbers = [store.numbers(*part) for part in parts]
            numbers[1:] = [part + numbers[0][-1] + 1 for part in numbers[1:]]
            row["documents"] = np.concatenate(numbers)
        if self.before:
            first = max(0, start - self.before)
            if self.numbered:  # no further back than the document goes
                behind = store.numbers(first, start + 1)
                first += int(np.argmax(behind == behind[-1]))
            row["before"] = store.slice(first, start)["tokens"]
        return row


class Pack(Rows):
    """Whole examples side by side in rows of at most `length` tokens (and `beyond`), numbered
    under "documents", so that attention stays within each. Which ones share a row is found once,
    best fit first, among pools that the seed draws."""

    def __init__(self, store: Store, length: int, seed: int, *, beyond: int = 0) -> None:
        _check_parallel(store, "pack")
        lengths = store.lengths()
        room = length + beyond
        if len(lengths) and lengths.max() > room:
            raise GlassformerError(
                f"An example of {lengths.max():,} tokens does not fit rows of {room:,}; raise "
                'data.length, or cut long texts with data.arrange = "stream".'
            )
        self.store = store
        shuffled = Shuffle(len(store), seed)(np.arange(len(store)))
        members: list[int] = []
        starts = [0]
        for first in range(0, len(store), POOL):
            pool = shuffled[first : first + POOL]
            for row in packed(lengths[pool], room):
                members += pool[row].tolist()
                starts.append(len(members))
        self.members, self.starts = np.array(members), np.array(starts)
        self.count = self.all = len(starts) - 1
        self.tokens = int(lengths.sum())

    def row(self, epoch: int, number: int) -> Example:
        members = self.members[self.starts[number] : self.starts[number + 1]]
        parts = [self.store[int(member)] for member in members]
        row = _joined(parts)
        sizes = [len(next(iter(part.values()))) for part in parts]
        row["documents"] = np.repeat(np.arange(len(parts)), sizes)
        return row


def packed(lengths: Numbers, room: int) -> list[list[int]]:
    """Rows of indices whose lengths sum to at most `room`: the longest first, each into the row
    that it fills best."""
    rows: list[list[int]] = []
    with_room: list[list[int]] = [[] for _ in range(room + 1)]  # rows by the room that is left
    there = 0  # bit r is set where some row has room for r more
    for index in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[index])
        fitting = there >> length
        if fitting:
            left = length + (fitting & -fitting).bit_length() - 1
            row = with_room[left].pop()
            there ^= (not with_room[left]) << left
        else:
            left, row = room, len(rows)
            rows.append([])
        rows[row].append(index)
        with_room[left - length].append(row)
        there |= 1 << (left - length)
    return rows


def _joined(parts: list[Example]) -> Example:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _check_parallel(store: Store, arrangement: str) -> None:
    if not store.parallel:
        raise GlassformerError(
            f'data.arrange = "{arrangement}" joins examples token by token, and this objective has '
            'several lengths in one; choose "single" or "buckets".'
        )
