"""Row sources: how stored examples become rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.train.batches.memmap_dataset import MemmapDataset
from glassformer.train.batches.sampler import Numbers, Shuffle
from glassformer.train.objectives.objective import Example

USUAL, SPREAD, SHORTEST = 0.95, 5.0, 5  # windows of varying length, as in AWD-LSTM
POOL = 4096
"""Number of examples that are packed together; more would hardly fill the rows better."""


class RowSource(ABC):
    """The rows of an epoch.

    Attributes:
        count: Number of rows in an epoch.
        all: Number of rows in one pass over everything, as in an evaluation.
        tokens: Number of tokens in an epoch.
    """

    count: int
    all: int
    tokens: int

    @abstractmethod
    def row(self, epoch: int, number: int) -> Example:
        """Returns a row of an epoch."""

    def fixed(self, number: int) -> Example:
        """Returns a row of an evaluation."""
        return self.row(0, number)


class SingleRows(RowSource):
    """One example per row; the objective pads."""

    def __init__(self, store: MemmapDataset) -> None:
        self.store = store
        self.count = self.all = len(store)
        self.tokens = int(store.lengths().sum())

    def row(self, epoch: int, number: int) -> Example:
        return self.store[number]


class StreamRows(RowSource):
    """All documents joined to a ring of tokens and cut into windows of equal length.

    Every epoch starts at another token. The remainder, less than a window, differs from epoch to
    epoch; an evaluation starts at the first token and has a short last window instead.

    Args:
        store: The examples.
        length: Number of tokens per window.
        seed: Seed of the start tokens.
        beyond: Number of additional tokens of a row: the first ones of the next row.
        before: Maximum number of tokens before the row, given as "before". In training they are
            taken from the ring, in an evaluation from the text, which has a first token.
        across: Whether attention may cross documents; otherwise "documents" numbers them if there
            are several.
    """

    def __init__(
        self,
        store: MemmapDataset,
        length: int,
        seed: int,
        *,
        beyond: int = 0,
        before: int = 0,
        across: bool = False,
    ) -> None:
        _check_parallel(store, "concatenate")
        total = store.size
        if total <= beyond:
            raise DataError(f"The data has {total} tokens in all, too few to learn from; add text.")
        self.store, self.seed = store, seed
        self.length = min(length, total - beyond)
        self.beyond, self.before = beyond, before
        self.numbered = not across and store.documents > 1
        self.count = total // self.length
        self.all = -(-(total - beyond) // self.length)
        self.tokens = self.count * self.length

    def row(self, epoch: int, number: int) -> Example:
        free = self.store.size > self.length + self.beyond
        shift = _drawn(self.seed, epoch, self.length) if free else 0
        return self._of_ring(shift + number * self.length, self.length)

    def fixed(self, number: int) -> Example:
        start = number * self.length
        end = min(start + self.length + self.beyond, self.store.size)
        return self._window(start, end, max(0, start - self.before))

    def _of_ring(self, start: int, length: int) -> Example:
        """Returns a row of `length` tokens; the tokens before it never overlap the row itself."""
        start %= self.store.size
        end = start + length + self.beyond
        return self._window(start, end, max(start - self.before, end - self.store.size))

    def _window(self, start: int, end: int, first: int) -> Example:
        """Returns the ring's tokens from `start` to `end`, and those from `first` to `start`."""
        store, parts = self.store, self._parts(start, end)
        row = _joined([store.slice(*part) for part in parts])
        if self.numbered:
            numbers = [store.numbers(*part) for part in parts]
            numbers[1:] = [part + numbers[0][-1] + 1 for part in numbers[1:]]
            row["documents"] = np.concatenate(numbers)
        if self.before:
            if self.numbered:  # not beyond the start of the document
                first = max(0, first)
                behind = store.numbers(first, start + 1)
                first += int(np.argmax(behind == behind[-1]))
            before = _joined([store.slice(*part) for part in self._parts(first, start)])
            row["before"] = before["tokens"]
        return row

    def _parts(self, start: int, end: int) -> list[tuple[int, int]]:
        """Returns the slices of these tokens, which may wrap around the end of the ring."""
        size = self.store.size
        if start < 0:
            return [(start + size, size), (0, end)]
        return [(start, min(end, size)), (0, end - size)][: 1 + (end > size)]


class VaryingRows(StreamRows):
    """A stream in windows whose length is drawn anew for every batch.

    So windows end at other tokens each time: the length is normally about `length`, sometimes about
    half of it (Merity et al., 2017, 5), and never more than `most`.

    The ring is divided into as many stretches as a batch has rows, all cut at the same offsets; row
    n of an epoch is in stretch n modulo `batch`. Every epoch has the same number of windows, so
    that any can be found without those before it: what they leave out, or read twice, is less than
    one in a hundred.
    """

    def __init__(
        self,
        store: MemmapDataset,
        length: int,
        seed: int,
        *,
        batch: int,
        most: int | None,
        **options: Any,
    ) -> None:
        super().__init__(store, length, seed, **options)
        self.batch = batch
        self.most = min(most or store.size, store.size - self.beyond)
        self.stretch = store.size // batch
        mean = self.length * (USUAL + (1 - USUAL) / 2)
        self.windows = max(1, round(self.stretch / mean))
        self.count = self.windows * batch
        self.tokens = self.stretch * batch

    def row(self, epoch: int, number: int) -> Example:
        window, stretch = divmod(number, self.batch)
        first, end = _edges(self.seed, epoch, self.windows, self.length, self.most)[window:][:2]
        shift = _drawn(self.seed, epoch, self.store.size)
        return self._of_ring(shift + stretch * self.stretch + int(first), int(end - first))


class PackedRows(RowSource):
    """Whole examples next to each other in rows of at most `length` tokens (plus `beyond`).

    They are numbered under "documents", so that attention stays within each. Which examples share a
    row is determined once, by best fit, within pools that the seed draws. With `cut`, an example
    that is longer than a row is split into windows.
    """

    def __init__(
        self, store: MemmapDataset, length: int, seed: int, *, beyond: int = 0, cut: bool = False
    ) -> None:
        _check_parallel(store, "pack")
        capacity = length + beyond
        starts, ends = store.edges[:-1], store.edges[1:]
        longest = int((ends - starts).max(initial=0))
        if longest > capacity and not cut:
            raise ConfigError(
                f"An example of {longest:,} tokens does not fit rows of {capacity:,}; raise "
                "data.sequence_length, or let the objective cut texts shorter."
            )
        windows = np.maximum(1, -(-(ends - starts - beyond) // length))
        which = np.arange(windows.sum()) - np.repeat(np.cumsum(windows) - windows, windows)
        self.starts = np.repeat(starts, windows) + which * length
        self.ends = np.minimum(self.starts + capacity, np.repeat(ends, windows))
        self.store = store
        lengths = self.ends - self.starts
        shuffled = Shuffle(len(lengths), seed)(np.arange(len(lengths)))
        members: list[Numbers] = []
        sizes: list[int] = []
        for pool in np.split(shuffled, range(POOL, len(lengths), POOL)):
            rows = packed(lengths[pool], capacity)
            members.append(pool[np.concatenate(rows)])
            sizes += map(len, rows)
        self.members = np.concatenate(members)
        self.firsts = np.cumsum([0, *sizes])  # index of each row's first member
        self.count = self.all = len(sizes)
        self.tokens = int(lengths.sum()) - beyond * int((windows - 1).sum())

    def row(self, epoch: int, number: int) -> Example:
        members = self.members[self.firsts[number] : self.firsts[number + 1]]
        starts, ends = self.starts[members], self.ends[members]
        row = _joined([self.store.slice(*part) for part in zip(starts, ends, strict=True)])
        row["documents"] = np.repeat(np.arange(len(members)), ends - starts)
        return row


@lru_cache(maxsize=16)
def _drawn(seed: int, epoch: int, below: int) -> int:
    return int(np.random.default_rng([seed, epoch]).integers(below))


@lru_cache(maxsize=4)
def _edges(seed: int, epoch: int, windows: int, length: int, most: int) -> Numbers:
    """Returns where windows begin and end in each stretch."""
    rng = np.random.default_rng([seed, epoch, windows])
    about = np.where(rng.random(windows) < USUAL, length, length / 2)
    lengths = rng.normal(about, SPREAD).astype(np.int64).clip(min(SHORTEST, most), most)
    return np.append(0, np.cumsum(lengths))


def packed(lengths: Numbers, capacity: int) -> list[list[int]]:
    """Returns rows of indices whose lengths sum to at most `capacity`.

    Best-fit decreasing: the longest first, each into the row that it fills best.
    """
    rows: list[list[int]] = []
    with_room: list[list[int]] = [[] for _ in range(capacity + 1)]  # rows by remaining room
    there = 0  # bit r is set if some row has exactly r tokens of room left
    for index in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[index])
        fitting = there >> length
        if fitting:
            left = length + (fitting & -fitting).bit_length() - 1
            row = with_room[left].pop()
            there ^= (not with_room[left]) << left
        else:
            left, row = capacity, len(rows)
            rows.append([])
        rows[row].append(index)
        with_room[left - length].append(row)
        there |= 1 << (left - length)
    return rows


def _joined(parts: list[Example]) -> Example:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _check_parallel(store: MemmapDataset, batching: str) -> None:
    if not store.parallel:
        raise ConfigError(
            f'data.batching = "{batching}" joins examples token by token, and this objective has '
            'several lengths in one; choose "pad" or "bucket".'
        )
