"""The few lengths to which rows are padded on a GPU, where each shape is compiled or recorded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from glassformer.rounding import round_up

RARE = 0.02
"""Fraction of batches that may need the second length."""


def even(length: int, most: int | None = None) -> int:
    """Rounds a length up, so that there are few different lengths.

    The result is a multiple of 8 or more; beyond 32 it is at most a quarter longer. `most` limits
    it.

    >>> [even(length) for length in (3, 41, 64, 65, 130)]
    [8, 48, 64, 80, 160]
    """
    step = max(8, 1 << max(0, (length - 1).bit_length() - 3))
    rounded = round_up(length, step)
    return max(length, rounded if most is None else min(rounded, most))


def row_lengths(lengths: Mapping[str, NDArray[np.int64]], batch: int) -> dict[str, tuple[int, ...]]:
    """Returns one or two lengths for each field, to which the rows of a batch are padded.

    Nearly all batches of random rows fit the first one, and all fit the last. There is one alone if
    it is at most a quarter longer than what nearly all batches need.

    >>> row_lengths({"tokens": np.array([3] * 9000 + [30] * 10 + [400])}, batch=8)
    {'tokens': (32, 400)}
    """
    found: dict[str, tuple[int, ...]] = {}
    for name, sizes in lengths.items():
        ordered = np.sort(sizes)
        longest = even(int(ordered[-1]), int(ordered[-1]))
        usual = even(int(ordered[int((len(ordered) - 1) * (1 - RARE / batch))]), longest)
        found[name] = (usual, longest) if 4 * longest > 5 * usual else (longest,)
    return found


def mean_lengths(lengths: Mapping[str, NDArray[np.int64]], batch: int) -> dict[str, float]:
    """Returns for each field a mean length of rows that hardly any batch exceeds."""
    return {
        name: float(sizes.mean() + 4 * sizes.std() / batch**0.5) for name, sizes in lengths.items()
    }
