"""Exact nearest-neighbor search: compares all vectors, a block at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BLOCK = 2**26  # bytes of float32 that are held at a time


def nearest(
    vectors: NDArray[Any],
    ranges: Sequence[tuple[int, int]],
    queries: NDArray[np.float32],
    top: int,
) -> list[list[tuple[float, int]]]:
    """Returns the (cosine, row) pairs of the nearest rows for each query, the nearest first.

    Of equal ones, the earlier row comes first.

    Args:
        vectors: Vectors of length 1, [row, width].
        ranges: The (first row, count) ranges to search, in order.
        queries: The queries, [query, width].
        top: The number of rows per query.
    """
    normalized = torch.from_numpy(np.ascontiguousarray(queries, dtype=np.float32))
    normalized = torch.nn.functional.normalize(normalized, dim=-1)
    firsts = [first for first, _ in ranges]
    size = max(1, BLOCK // (4 * vectors.shape[1]))
    best: list[list[tuple[float, int]]] = [[] for _ in normalized]
    for start in range(0, len(vectors), size):
        end = min(start + size, len(vectors))
        there = torch.zeros(end - start, dtype=torch.bool)
        for first, count in ranges[max(0, bisect_right(firsts, start) - 1) :]:
            if first >= end:
                break
            there[max(first - start, 0) : max(first + count - start, 0)] = True
        block = torch.from_numpy(vectors[start:end].astype(np.float32))
        scores = (normalized @ block.T).masked_fill(~there, float("-inf"))
        for number, row in enumerate(scores):
            best[number] = _best(best[number], row, start, top)
    return best


def _best(
    held: list[tuple[float, int]], scores: Tensor, start: int, top: int
) -> list[tuple[float, int]]:
    """Merges the best of a block's scores, [row], into those found before.

    torch.topk does not prefer the first among equal scores, so all rows that equal the last one are
    considered.
    """
    count = min(top, len(scores))
    least = scores.topk(count).values[-1]
    rows = (scores >= least).nonzero()[:, 0]
    new = zip(scores[rows].tolist(), (rows + start).tolist(), strict=True)
    both = [*held, *((score, row) for score, row in new if score > float("-inf"))]
    return sorted(both, key=lambda found: (-found[0], found[1]))[:top]
