"""Train room, data: rows of several kinds, each kind in a share of its own, however many it has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.train.data.order import Numbers, Place, Shuffle

PERIOD = 1000
"""Shares hold exactly over so many rows."""


class Shared:
    """Batches of equally many rows, every kind's turns spread evenly: so each batch has about as
    many rows of a kind as any other. A kind is shuffled anew each time that all its rows have
    come, which with a large share is often."""

    def __init__(self, kinds: Sequence[tuple[Numbers, float]], batch: int, seed: int) -> None:
        self.kinds = [rows for rows, _ in kinds]
        self.seed, self.smallest = seed, batch
        self.epoch = sum(map(len, self.kinds)) / batch
        self.counts = apportioned([share for _, share in kinds])
        pattern = np.repeat(np.arange(len(kinds)), self.counts)
        times = np.concatenate([(np.arange(count) + 0.5) / count for count in self.counts if count])
        self.pattern = pattern[np.argsort(times, kind="stable")]
        self.before = np.zeros(PERIOD, dtype=np.int64)  # how often its kind had its turn already
        for kind in range(len(kinds)):
            mine = self.pattern == kind
            self.before[mine] = np.arange(mine.sum())

    def batch(self, number: int) -> list[Place]:
        return [self._place(number * self.smallest + i) for i in range(self.smallest)]

    def _place(self, slot: int) -> Place:
        period, turn = divmod(slot, PERIOD)
        kind = int(self.pattern[turn])
        rows = self.kinds[kind]
        number = period * self.counts[kind] + int(self.before[turn])
        epoch, place = divmod(number, len(rows))
        shuffled = Shuffle(len(rows), self.seed, epoch, kind)(np.array([place]))
        return epoch, int(rows[shuffled[0]])

    def sweep(self, rows: int, world: int) -> list[Numbers]:
        batches = max(1, min(-(-rows // self.smallest), rows // world))
        return np.array_split(np.arange(rows), batches)


def apportioned(shares: Sequence[float]) -> list[int]:
    """Whole turns of a period, the largest remainders rounded up; none for a share of nothing."""
    exact = np.array(shares, dtype=float) / sum(shares) * PERIOD
    counts = np.floor(exact).astype(int)
    remainder = np.where(exact > 0, exact - counts, -1.0)
    counts[np.argsort(-remainder, kind="stable")[: PERIOD - counts.sum()]] += 1
    return [int(count) for count in counts]
