"""Random numbers of a batch, each a function of seed, step, row, name and index.

They are the outputs of SplitMix64 (Steele et al., 2014) at a state that is counted up from a key of
the row. So they can be computed for all rows at once, and do not depend on which other rows are in
the batch or on the process that computes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from glassformer.train.objectives.rows import Lengths

Keys = NDArray[np.uint64]
Fractions = NDArray[np.float64]
Flags = NDArray[np.bool_]
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class RowRandom:
    """Random numbers for the rows of a batch, by the key of each row."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    @classmethod
    def of(cls, *seed: int, rows: Lengths) -> RowRandom:
        """Returns those of numbered rows; `seed` are non-negative integers, such as the step."""
        return cls(mixed(_base(seed) + rows.astype(np.uint64) * GOLDEN))

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: NDArray[np.int64]) -> RowRandom:
        """Returns those of some of the rows."""
        return RowRandom(self.keys[rows])

    def child(self, name: str) -> RowRandom:
        """Returns independent draws of the same rows."""
        return RowRandom(mixed(self.keys ^ _hash(name)))

    def uniform(self, name: str, lengths: Lengths | None = None) -> Fractions:
        """Returns numbers in [0, 1): one per row, or `lengths` of each row, joined."""
        found: Fractions = (self._bits(name, lengths) >> np.uint64(11)).astype(np.float64)
        return found * 2.0**-53

    def grid(self, name: str, columns: int) -> Fractions:
        """Returns numbers in [0, 1) as [row, column]."""
        return self.uniform(name, np.full(len(self), columns)).reshape(-1, columns)

    def below(
        self, name: str, limits: NDArray[np.int64] | int, lengths: Lengths | None = None
    ) -> NDArray[np.int64]:
        """Returns integers from 0 that are less than `limits`."""
        return (self.uniform(name, lengths) * limits).astype(np.int64)

    def chosen(self, name: str, among: Flags, counts: NDArray[np.int64]) -> Flags:
        """Chooses `counts` of the True elements of each row of a mask, [row, slot], at random.

        Every subset of a row is equally likely.
        """
        if not among.size:
            return among
        scores = np.where(among, self.grid(name, among.shape[1]), 2.0)
        ordered = np.sort(scores, axis=1)
        last = np.take_along_axis(ordered, np.maximum(counts - 1, 0)[:, None], axis=1)
        found: Flags = among & (scores <= last) & (counts > 0)[:, None]
        return found

    def generators(self) -> Iterator[np.random.Generator]:
        """Yields a generator for each row, for what numpy cannot do for all rows at once."""
        for key in self.keys.tolist():
            yield np.random.Generator(np.random.Philox(key=key))

    def _bits(self, name: str, lengths: Lengths | None) -> Keys:
        keys = mixed(self.keys ^ _hash(name))
        if lengths is None:
            return mixed(keys + GOLDEN)
        index = np.arange(1, int(lengths.sum()) + 1, dtype=np.uint64)
        first = (np.cumsum(lengths) - lengths).astype(np.uint64)
        return mixed(np.repeat(keys - first * GOLDEN, lengths) + index * GOLDEN)


@lru_cache(maxsize=1024)
def _base(seed: tuple[int, ...]) -> np.uint64:
    return np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


@lru_cache(maxsize=1024)
def _hash(name: str) -> np.uint64:
    return np.uint64(mixed(np.array([crc32(name.encode())], np.uint64) * GOLDEN)[0])


def mixed(values: Keys) -> Keys:
    """Makes every bit of the result depend on every input bit (the finalizer of SplitMix64)."""
    values = values ^ (values >> np.uint64(30))
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
    return values
