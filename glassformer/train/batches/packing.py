"""Row sources: how stored examples become rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.rounding import ceil_div
from glassformer.train.batches.memmap_dataset import MemmapDataset
from glassformer.train.batches.sampler import Numbers, Shuffle
from glassformer.train.objectives.rows import RaggedColumn, Rows, counted, sliced, sums

USUAL, SPREAD, SHORTEST = 0.95, 5.0, 5  # windows of varying length, as in AWD-LSTM
POOL = 4096
"""Number of examples that are packed together; more would hardly fill the rows better."""


class RowSource(ABC):
    """The rows of an epoch.

    Attributes:
        count: Number of rows in an epoch.
        all: Number of rows in one pass over everything, as in an evaluation.
        tokens: Number of tokens in an epoch.
        runs_per_row: Number of texts with padding per row that hardly any batch exceeds on average.
    """

    count: int
    all: int
    tokens: int
    runs_per_row: int = 2

    @abstractmethod
    def rows(self, epochs: Numbers, numbers: Numbers) -> Rows:
        """Returns rows by their epochs and numbers."""

    def fixed(self, numbers: Numbers) -> Rows:
        """Returns rows of an evaluation."""
        return self.rows(np.zeros_like(numbers), numbers)


class SingleRows(RowSource):
    """One example per row; the objective pads."""

    def __init__(self, store: MemmapDataset) -> None:
        self.store = store
        self.count = self.all = len(store)
        self.tokens = int(store.lengths().sum())

    def rows(self, epochs: Numbers, numbers: Numbers) -> Rows:
        return self.store.rows(numbers)


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
        self.all = ceil_div(total - beyond, self.length)
        self.tokens = self.count * self.length
        if self.numbered:
            windows = store.document_starts // self.length
            self.runs_per_row = _usual(1 + np.bincount(windows, minlength=self.all))

    def rows(self, epochs: Numbers, numbers: Numbers) -> Rows:
        shifts = np.zeros_like(numbers)
        if self.store.size > self.length + self.beyond:
            shifts = self._drawn(epochs, self.length)
        return self._of_ring(
            shifts + numbers * self.length, np.full_like(numbers, self.length + self.beyond)
        )

    def fixed(self, numbers: Numbers) -> Rows:
        starts = numbers * self.length
        ends = np.minimum(starts + self.length + self.beyond, self.store.size)
        return self._windows(starts, ends - starts, np.maximum(0, starts - self.before))

    def _drawn(self, epochs: Numbers, below: int) -> Numbers:
        return np.array([_drawn(self.seed, epoch, below) for epoch in epochs.tolist()], np.int64)

    def _of_ring(self, starts: Numbers, lengths: Numbers) -> Rows:
        """Returns rows of the ring; the tokens before a row never overlap the row itself."""
        size = self.store.size
        starts = starts % size
        return self._windows(
            starts, lengths, np.maximum(starts - self.before, starts + lengths - size)
        )

    def _windows(self, starts: Numbers, lengths: Numbers, firsts: Numbers) -> Rows:
        """Returns windows of the ring and, if asked for, the tokens from `firsts` on before them.

        A negative first token is one before the end of the ring.
        """
        row = self._slices(starts, lengths)
        edges = self.store.document_starts if self.numbered else np.zeros(0, np.int64)
        if self.numbered:
            documents = document_numbers(edges, starts, lengths, self.store.size)
            row |= {"documents": RaggedColumn(documents, lengths)}
        if self.before:
            if self.numbered:  # not beyond the start of the document
                last = np.searchsorted(edges, starts, side="right") - 1
                begin = np.where(last < 0, 0, edges[np.maximum(last, 0)])
                firsts = np.maximum(firsts, begin)
            before = self._slices(firsts % self.store.size, starts - firsts)
            row |= {"before": before.columns["tokens"]}
        return row

    def _slices(self, starts: Numbers, lengths: Numbers) -> Rows:
        """Returns slices of the ring, which may wrap around its end."""
        ends, size = starts + lengths, self.store.size
        inside = np.minimum(ends, size) - starts
        if (inside == lengths).all():
            return self.store.slices(starts, lengths)
        twice = np.stack((starts, np.zeros_like(starts)), axis=1).flatten()
        parts = self.store.slices(twice, np.stack((inside, lengths - inside), axis=1).flatten())
        return Rows(
            {name: RaggedColumn(part.values, lengths) for name, part in parts.columns.items()}
        )


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

    def rows(self, epochs: Numbers, numbers: Numbers) -> Rows:
        windows, stretches = np.divmod(numbers, self.batch)
        firsts, ends = np.empty_like(numbers), np.empty_like(numbers)
        for epoch in np.unique(epochs).tolist():
            mine = epochs == epoch
            edges = _edges(self.seed, epoch, self.windows, self.length, self.most)
            firsts[mine], ends[mine] = edges[windows[mine]], edges[windows[mine] + 1]
        shifts = self._drawn(epochs, self.store.size)
        return self._of_ring(
            shifts + stretches * self.stretch + firsts, ends - firsts + self.beyond
        )


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
        windows = np.maximum(1, ceil_div(ends - starts - beyond, length))
        which = np.arange(windows.sum()) - np.repeat(np.cumsum(windows) - windows, windows)
        self.starts = np.repeat(starts, windows) + which * length
        self.ends = np.minimum(self.starts + capacity, np.repeat(ends, windows))
        self.store = store
        lengths = self.ends - self.starts
        shuffled = Shuffle(len(lengths), seed)(np.arange(len(lengths)))
        members: list[Numbers] = []
        sizes: list[int] = []
        for pool in np.split(shuffled, range(POOL, len(lengths), POOL)):
            rows = pack_rows(lengths[pool], capacity)
            members.append(pool[np.concatenate(rows)])
            sizes += map(len, rows)
        self.members = np.concatenate(members)
        self.firsts = np.cumsum([0, *sizes])  # index of each row's first member
        self.count = self.all = len(sizes)
        self.tokens = int(lengths.sum()) - beyond * int((windows - 1).sum())
        self.runs_per_row = _usual(np.array(sizes))

    def rows(self, epochs: Numbers, numbers: Numbers) -> Rows:
        firsts = self.firsts[numbers]
        members = sliced(self.members, firsts, self.firsts[numbers + 1] - firsts)
        starts, ends = self.starts[members.values], self.ends[members.values]
        parts = self.store.slices(starts, ends - starts)
        lengths = sums(ends - starts, members.lengths)
        found = {name: RaggedColumn(part.values, lengths) for name, part in parts.columns.items()}
        documents = np.repeat(members.places, ends - starts)
        return Rows(found | {"documents": RaggedColumn(documents, lengths)})


def _usual(documents: Numbers) -> int:
    """Returns a number of runs per row that batches of 16 random rows or more hardly exceed."""
    return int(np.ceil(1 + documents.mean() + 4 * documents.std() / 4))


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


def pack_rows(lengths: Numbers, capacity: int) -> list[list[int]]:
    """Returns rows of indices whose lengths sum to at most `capacity`.

    Best-fit decreasing: the longest first, each into the row that it fills best.
    """
    rows: list[list[int]] = []
    with_room: list[list[int]] = [[] for _ in range(capacity + 1)]  # rows by free slots
    there = 0  # bit r is set if some row has exactly r free slots
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


def document_numbers(edges: Numbers, starts: Numbers, lengths: Numbers, size: int) -> Numbers:
    """Numbers the documents of windows of the ring, from 0 in each window.

    `edges` is where documents begin; the first token of the ring begins one, too.
    """
    begins = np.zeros(int(lengths.sum()), dtype=bool)
    offsets = np.cumsum(lengths) - lengths - starts  # from a place in the ring to one in `begins`
    ends = starts + lengths
    wrapped = ends > size
    begins[(offsets + size)[wrapped]] = True
    spans = ((starts, ends, offsets), (starts - size, ends - size, offsets + size))
    for first, last, offset in spans[: 1 + bool(wrapped.any())]:
        low = np.searchsorted(edges, np.maximum(first, -1), side="right")
        high = np.maximum(low, np.searchsorted(edges, np.minimum(last, size), side="left"))
        inside = sliced(edges, low, high - low)
        begins[inside.values + np.repeat(offset, inside.lengths)] = True
    return counted(begins, lengths)


def _check_parallel(store: MemmapDataset, batching: str) -> None:
    if not store.parallel:
        raise ConfigError(
            f'data.batching = "{batching}" joins examples token by token, and this objective has '
            'several lengths in one; choose "pad" or "bucket".'
        )
