"""Batches of several kinds of rows in fixed shares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.rounding import ceil_div
from glassformer.train.batches.sampler import Numbers, Place, shuffled

PERIOD = 1000
"""Number of rows over which the shares hold exactly."""


class Shared:
    """Batches of equally many rows, with the rows of every kind spread evenly.

    So each batch has about as many rows of a kind as any other. A kind is reshuffled each time all
    its rows were used, which happens often if its share is large.
    """

    def __init__(self, kinds: Sequence[tuple[Numbers, float]], batch: int, seed: int) -> None:
        self.kinds = [rows for rows, _ in kinds]
        self.seed, self.smallest = seed, batch
        self.epoch = sum(map(len, self.kinds)) / batch
        self.counts = apportioned([share for _, share in kinds])
        pattern = np.repeat(np.arange(len(kinds)), self.counts)
        times = np.concatenate([(np.arange(count) + 0.5) / count for count in self.counts if count])
        self.pattern = pattern[np.argsort(times, kind="stable")]
        self.before = np.zeros(PERIOD, dtype=np.int64)  # earlier rows of the same kind
        for kind in range(len(kinds)):
            mine = self.pattern == kind
            self.before[mine] = np.arange(mine.sum())

    def batch(self, number: int) -> list[Place]:
        period, turn = np.divmod(np.arange(self.smallest) + number * self.smallest, PERIOD)
        kinds = self.pattern[turn]
        epochs, found = np.empty_like(turn), np.empty_like(turn)
        for kind in np.unique(kinds):
            mine, rows = kinds == kind, self.kinds[kind]
            places = period[mine] * self.counts[kind] + self.before[turn[mine]]
            epochs[mine], places = np.divmod(places, len(rows))
            for epoch in np.unique(epochs[mine]):
                now = epochs[mine] == epoch
                places[now] = shuffled(places[now], len(rows), self.seed, int(epoch), int(kind))
            found[mine] = rows[places]
        return list(zip(epochs.tolist(), found.tolist(), strict=True))

    def sweep(self, rows: int, world: int) -> list[Numbers]:
        batches = max(1, min(ceil_div(rows, self.smallest), rows // world))
        return np.array_split(np.arange(rows), batches)


def apportioned(shares: Sequence[float]) -> list[int]:
    """Converts shares to whole numbers of rows per period, by largest remainders.

    A share of 0 gets no rows.
    """
    exact = np.array(shares, dtype=float) / sum(shares) * PERIOD
    counts = np.floor(exact).astype(int)
    remainder = np.where(exact > 0, exact - counts, -1.0)
    counts[np.argsort(-remainder, kind="stable")[: PERIOD - counts.sum()]] += 1
    return [int(count) for count in counts]
