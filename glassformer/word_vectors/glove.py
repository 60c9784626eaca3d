"""GloVe: products of vectors approximate the logarithms of co-occurrence counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ctypes import Array, byref, c_void_p
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glassformer.word_vectors.corpus import Corpus, Ids, Watch
from glassformer.word_vectors.kernel import Pairs, kernel, padded
from glassformer.word_vectors.space import Vectors
from glassformer.word_vectors.steps import GloVeSide, regression
from glassformer.word_vectors.thread_pool import process_chunks
from glassformer.word_vectors.word2vec import check

COUNTED = 1_000_000  # words whose pairs are sorted at once
CHUNK = 100_000  # pairs per chunk of work
BATCH = 1024  # pairs per step without the compiled kernel

Order = npt.NDArray[np.int64]
Keys = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
Piece = tuple[int, int]  # range of the order


@dataclass(frozen=True, kw_only=True)
class GloVe:
    """Training settings. The defaults are those of the authors' program."""

    vector_size: int = 100
    window: int = 15
    epochs: int = 25
    x_max: float = 100.0  # counts above this have weight 1
    alpha: float = 0.75  # exponent of the weight (count / x_max) below it
    learning_rate: float = 0.05
    seed: int = 1
    num_workers: int = 1  # with one, the same seed gives bitwise identical vectors

    def __post_init__(self) -> None:
        least = {"vector_size": 1, "window": 1, "epochs": 1, "x_max": 0, "alpha": 0}
        check(self, **least, learning_rate=0, seed=0, num_workers=1)


@dataclass(frozen=True)
class Counts:
    """Co-occurrence counts of word pairs, in both orders; a pair d words apart counts 1/d."""

    first: Ids
    second: Ids
    value: Values


def cooccurrences(corpus: Corpus, window: int, watch: Watch = lambda _: None) -> Counts:
    """Counts co-occurrences within a window; a pair at distance d counts 1/d.

    Args:
        corpus: The text.
        window: The largest distance between two words that are counted.
        watch: Called with the number of words done.

    Returns:
        The counts of all pairs of words.
    """
    words = len(corpus.words)
    keys: Keys = np.empty(0, np.int64)
    values: Values = np.empty(0)
    for first, last in corpus.chunks(COUNTED):
        begin, end = int(corpus.bounds[first]), int(corpus.bounds[last])
        ids = np.asarray(corpus.ids[begin:end], np.int64)
        sentence = np.repeat(np.arange(first, last), np.diff(corpus.bounds[first : last + 1]))
        found = [np.empty(0, np.int64)]
        for apart in range(1, min(window, len(ids) - 1) + 1):
            together = sentence[apart:] == sentence[:-apart]
            pair = ids[:-apart][together] * words + ids[apart:][together]
            found.append(pair * window + apart - 1)  # sortable without separate weights
        triples, count = np.unique(np.concatenate(found), return_counts=True)
        new, apart_of = np.divmod(triples, window)
        keys, values = summed(
            np.concatenate((keys, new)), np.concatenate((values, count / (apart_of + 1)))
        )
        watch(end)
    a, b = np.divmod(keys, words)
    both, value = summed(np.concatenate((keys, b * words + a)), np.tile(values, 2))
    return Counts((both // words).astype(np.int32), (both % words).astype(np.int32), value)


def summed(keys: Keys, values: Values) -> tuple[Keys, Values]:
    """Returns the sorted unique keys with the sums of their values."""
    order = np.argsort(keys, kind="stable")  # fast if runs are already sorted
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[first], np.add.reduceat(values[order], first)


def learn_glove(
    words: list[str],
    counts: Counts,
    settings: GloVe,
    watch: Watch = lambda _: None,
    batch: int | None = None,
) -> Vectors:
    """Trains GloVe vectors. A word's vector is the sum of its word and context vectors.

    Args:
        words: The vocabulary.
        counts: Co-occurrence counts.
        settings: Training settings.
        watch: Called with the number of pairs done, over all epochs.
        batch: Pairs per step, computed by torch; None uses the compiled kernel if possible.

    Returns:
        The vectors.
    """
    rng = np.random.default_rng(settings.seed)
    fit = GloVeSteps(counts, two_sides(len(words), settings.vector_size, rng), settings)
    total, fast = len(counts.value), None if batch else kernel()
    pieces = [(begin, min(begin + CHUNK, total)) for begin in range(0, total, CHUNK)]
    for epoch in range(settings.epochs):
        order = rng.permutation(total)
        do = fit.compiled(order, fast.regress) if fast else fit.plain(order, batch or BATCH)
        before = partial(lambda start, size: watch(start + size), epoch * total)
        process_chunks(pieces, do, settings.num_workers if fast else 1, before)
    table = fit.sides[0].table + fit.sides[1].table
    return Vectors(words, table[:, : settings.vector_size].numpy())


def two_sides(words: int, size: int, rng: np.random.Generator) -> tuple[GloVeSide, GloVeSide]:
    return initialize_side(words, size, rng), initialize_side(words, size, rng)


def initialize_side(words: int, size: int, rng: np.random.Generator) -> GloVeSide:
    table = np.zeros((words, padded(size)), np.float32)
    table[:, :size] = (rng.random((words, size), np.float32) - 0.5) / (size + 1)
    bias = (rng.random(words, np.float32) - 0.5) / (size + 1)
    bias = np.stack((bias, np.ones_like(bias)), -1)
    whole = torch.from_numpy(table)
    return GloVeSide(whole, torch.ones_like(whole), torch.from_numpy(bias))


class GloVeSteps:
    """Training steps over co-occurrence counts, by the compiled kernel or by torch."""

    def __init__(self, counts: Counts, sides: tuple[GloVeSide, GloVeSide], settings: GloVe) -> None:
        self.counts, self.settings, self.sides = counts, settings, sides
        self.wanted = np.log(counts.value).astype(np.float32)
        share = np.minimum(counts.value / settings.x_max, 1)
        self.weight = (share**settings.alpha).astype(np.float32)

    def compiled(self, order: Order, regress: Callable[..., None]) -> Callable[[Piece], int]:
        pairs = Pairs(
            first=self.counts.first.ctypes.data,
            second=self.counts.second.ctypes.data,
            wanted=self.wanted.ctypes.data,
            weight=self.weight.ctypes.data,
            order=order.ctypes.data,
            tables=pointers(side.table for side in self.sides),
            squares=pointers(side.squares for side in self.sides),
            biases=pointers(side.bias for side in self.sides),
            width=self.sides[0].table.shape[1],
            rate=self.settings.learning_rate,
        )

        def do(piece: Piece) -> int:
            regress(byref(pairs), *piece)
            return piece[1] - piece[0]

        return do

    def plain(self, order: Order, batch: int) -> Callable[[Piece], int]:
        def do(piece: Piece) -> int:
            for begin in range(*piece, batch):
                part = order[begin : min(begin + batch, piece[1])]
                first, second, wanted, weight = (
                    torch.from_numpy(a[part])
                    for a in (self.counts.first, self.counts.second, self.wanted, self.weight)
                )
                rows = (first.long(), second.long())
                regression(self.sides, rows, wanted, weight, self.settings.learning_rate)
            return piece[1] - piece[0]

        return do


def pointers(tensors: Iterable[Tensor]) -> Array[c_void_p]:
    return (c_void_p * 2)(*(tensor.data_ptr() for tensor in tensors))
