"""Samplers: which rows form a batch.

Nothing is kept from batch to batch: batch n depends only on the seed and n. So a run can resume
anywhere, and processes need not communicate about what they read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import ConfigError
from glassformer.rounding import ceil_div, round_up
from glassformer.train.objectives.row_random import mixed

Numbers = NDArray[np.int64]
Place = tuple[int, int]
"""An epoch, and a row of it."""

ROUNDS = 6
AHEAD = 4096
"""Number of neighboring positions shuffled at once; a few take nearly as long."""
GRAIN = 8
"""Lengths that differ by less than this many tokens count as equal."""


class Shuffle:
    """A permutation of range(size) that is computed lazily.

    It is a Feistel network over the next power of four, applied repeatedly until the result is in
    the range (cycle walking; Black & Rogaway, 2002).
    """

    def __init__(self, size: int, *key: int) -> None:
        self.size = size
        self._half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
        self._low = np.uint64((1 << int(self._half)) - 1)
        self._keys = np.random.SeedSequence(key).generate_state(ROUNDS, np.uint64)

    def __call__(self, places: Numbers) -> Numbers:
        found = self._once(places.astype(np.uint64))
        while (outside := found >= self.size).any():
            found[outside] = self._once(found[outside])
        return found.astype(np.int64)

    def _once(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = values >> self._half, values & self._low
        for key in self._keys:
            left, right = right, left ^ (mixed(right ^ key) & self._low)
        return (left << self._half) | right


def shuffled(places: Numbers, size: int, *key: int) -> Numbers:
    """Returns `Shuffle(size, *key)(places)`, faster for consecutive places."""
    found = np.empty_like(places)
    blocks = places // AHEAD
    for block in np.unique(blocks).tolist():
        mine = blocks == block
        found[mine] = _block(block, size, *key)[places[mine] - block * AHEAD]
    return found


@lru_cache(maxsize=64)
def _block(number: int, size: int, *key: int) -> Numbers:
    return Shuffle(size, *key)(np.arange(number * AHEAD, min(size, (number + 1) * AHEAD)))


class Order(Protocol):
    """An order of batches.

    `epoch` is the number of batches, possibly fractional, in which each row occurs once.
    """

    epoch: float
    smallest: int  # rows of the smallest batch

    def batch(self, number: int) -> list[Place]: ...

    def sweep(self, rows: int, world: int) -> list[Numbers]:
        """Returns all rows once, in batches of at least `world` rows, in a fixed order.

        `rows` is the number of rows of such a pass; the last row may be short.
        """
        ...


class Shuffled:
    """Batches of equally many rows, reshuffled in every epoch; an epoch may end within a batch."""

    def __init__(self, rows: int, batch: int, seed: int) -> None:
        self.rows, self.seed = rows, seed
        self.smallest = batch
        self.epoch = rows / batch

    def batch(self, number: int) -> list[Place]:
        size = self.smallest
        places = np.arange(number * size, (number + 1) * size)
        found: list[Place] = []
        for epoch in range(int(places[0]) // self.rows, int(places[-1]) // self.rows + 1):
            inside = places[places // self.rows == epoch] - epoch * self.rows
            rows = shuffled(inside, self.rows, self.seed, epoch)
            found += [(epoch, row) for row in rows.tolist()]
        return found

    def sweep(self, rows: int, world: int) -> list[Numbers]:
        batches = max(1, min(ceil_div(rows, self.smallest), rows // world))
        return np.array_split(np.arange(rows), batches)


class InTurn(Shuffled):
    """Rows in the order of their numbers."""

    def batch(self, number: int) -> list[Place]:
        first = number * self.smallest
        return [divmod(index, self.rows) for index in range(first, first + self.smallest)]


class Bucketed:
    """Batches of about `tokens` tokens, including padding, of rows of similar length.

    Rows are sorted by length and cut into batches once. Each epoch shuffles the rows of equal
    length among each other, and the batches. So every epoch has the same number of batches, and any
    of them can be found without the others.
    """

    def __init__(self, lengths: Numbers, tokens: int, seed: int) -> None:
        rounded = _rounded(lengths)
        self.seed = seed
        self.rows = np.argsort(rounded, kind="stable")
        sizes, starts = np.unique(rounded[self.rows], return_index=True)
        self.bins = np.append(starts, len(lengths))  # where rows of another length begin
        self.cuts = _cut(sizes, self.bins, max(tokens, GRAIN), int(lengths.max()))
        self.smallest = int(np.diff(self.cuts).min())
        self.epoch = float(len(self.cuts) - 1)

    def batch(self, number: int) -> list[Place]:
        epoch, chosen = self._chosen(number)
        found: list[Place] = []
        places = np.arange(self.cuts[chosen], self.cuts[chosen + 1])
        bins = np.searchsorted(self.bins, places, side="right") - 1
        for bin in np.unique(bins):
            start, end = self.bins[bin], self.bins[bin + 1]
            inside = places[bins == bin] - start
            drawn = Shuffle(int(end - start), self.seed, epoch, int(bin))(inside)
            found += [(epoch, row) for row in self.rows[start + drawn].tolist()]
        return found

    def sweep(self, rows: int, world: int) -> list[Numbers]:
        assert rows == len(self.rows), "rows of buckets are the same in every pass"
        return np.split(self.rows, self.cuts[1:-1])

    def _chosen(self, number: int) -> Place:
        """Returns the epoch, and the index of the batch within the cuts."""
        epoch, index = divmod(number, len(self.cuts) - 1)
        return epoch, int(shuffled(np.array([index]), len(self.cuts) - 1, self.seed, epoch)[0])


class Even(Bucketed):
    """Batches with at most `shapes` different shapes, for code that is recorded per shape.

    Rows are padded to a few lengths, those that need the least padding, and all batches of a length
    have equally many rows. If longer rows do not fill a whole batch, shorter ones are added; the
    remainder, less than a batch of the shortest, is left out, with other rows in every epoch. A row
    may have several `fields`; `lengths` are those of the longest.
    """

    def __init__(
        self,
        lengths: Numbers,
        tokens: int,
        seed: int,
        shapes: int,
        fields: Mapping[str, Numbers],
    ) -> None:
        super().__init__(lengths, tokens, seed)
        rounded = _rounded(lengths)[self.rows]
        sizes, counts = np.unique(rounded, return_counts=True)
        few = _few(sizes, counts, shapes)
        shorter = np.searchsorted(rounded, [0, *few[:-1]], side="right")  # rows below each size
        bins, cuts = [len(lengths)], [len(lengths)]  # from the end
        for size, begin in zip(reversed(few), reversed(shorter.tolist()), strict=True):
            fitting = min(max(1, tokens // size), len(lengths))
            wanted = ceil_div(max(0, cuts[-1] - begin), fitting)
            for _ in range(min(wanted, cuts[-1] // fitting)):
                cuts.append(cuts[-1] - fitting)
            bins.append(cuts[-1])
        shortest = cuts[-1]  # the remainder is shuffled with these
        self.bins = np.unique([0, *(begin for begin in bins if begin > shortest)])
        self.cuts = np.array(cuts[::-1])
        self.smallest = int(np.diff(self.cuts).min())
        self.epoch = float(len(self.cuts) - 1)
        self.longest = {  # of each bin's rows, by field
            name: np.maximum.reduceat(_rounded(each)[self.rows], self.bins[:-1])
            for name, each in fields.items()
        }

    def slots(self, number: int) -> dict[str, int]:
        """Returns the padded length of a batch's rows for each field."""
        start = self.cuts[self._chosen(number)[1]]
        bin = np.searchsorted(self.bins, start, side="right") - 1
        return {name: int(longest[bin]) for name, longest in self.longest.items()}


def _rounded(lengths: Numbers) -> Numbers:
    return round_up(np.maximum(lengths, 1), GRAIN)


def _few(sizes: Numbers, counts: Numbers, most: int) -> list[int]:
    """Returns at most `most` sizes such that padding all rows to them adds the least.

    Dynamic programming: the best cost of the first n sizes with one chosen size, with two, and so
    on.
    """
    rows = np.cumsum(counts)
    least = sizes * rows  # [last]: all up to this one are padded to it
    choices: list[Numbers] = []
    several = np.triu(np.ones((len(sizes), len(sizes)), dtype=bool), 1)  # [before, last]
    for _ in range(min(most, len(sizes)) - 1):
        cost = np.where(
            several, least[:, None] + sizes * (rows - rows[:, None]), np.iinfo(np.int64).max
        )
        choices.append(cost.argmin(0))
        least = np.minimum(least, cost.min(0))
    chosen = [len(sizes) - 1]
    for choice in reversed(choices):
        if chosen[-1] > 0:
            chosen.append(int(choice[chosen[-1]]))
    return [int(sizes[one]) for one in reversed(chosen)]


def _cut(sizes: Numbers, bins: Numbers, tokens: int, longest: int) -> Numbers:
    """Returns where batches begin, and the end.

    A batch has as many rows as fit if all are as long as its longest.
    """
    if longest > tokens:
        raise ConfigError(
            f"An example of {longest:,} tokens does not fit a batch of data.tokens_per_batch = "
            f"{tokens:,}; raise it, or let the objective cut texts shorter."
        )
    cuts, start, fitting = [0], 0, 1
    for size, begin, end in zip(sizes, bins[:-1], bins[1:], strict=True):
        fitting = max(1, tokens // int(size))
        if begin - start >= fitting:  # shorter rows have filled the batch already
            start = int(begin)
            cuts.append(start)
        while start + fitting < end:
            start += fitting
            cuts.append(start)
    end = int(bins[-1])
    if len(cuts) > 1:  # the last two batches share their rows, so that no small remainder is left
        cuts[-1] = min(start, end - min(fitting, (end - cuts[-2]) // 2))
    return np.array([*cuts, end], dtype=np.int64)
