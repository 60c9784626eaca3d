"""Subsampling, context windows and negative samples of word2vec.

Every random number is number n of one sequence (SplitMix64), where n follows from the position in
the text and the epoch. The samples therefore depend on the seed alone, not on how the work is split
or which thread does it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glassformer.word_vectors.corpus import Corpus, Floats, Ids

Bits = npt.NDArray[np.uint64]
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mixed(bits: Bits) -> Bits:
    """The mixing function of SplitMix64."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def key_of(seed: int) -> int:
    return int(mixed(np.array([seed], np.uint64))[0])


def draws(key: int, numbers: npt.NDArray[np.int64]) -> Bits:
    """Returns the random numbers with the given indices in the sequence of a key."""
    return mixed(np.uint64(key) + (numbers.astype(np.uint64) + np.uint64(1)) * GOLDEN)


def below(bits: Bits, limit: int) -> npt.NDArray[np.int64]:
    """Maps random bits to integers from 0 to `limit` - 1."""
    return (((bits >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32)).astype(np.int64)


@dataclass(frozen=True)
class Lottery:
    """Draws words in proportion to their count to the power of 0.75, by the alias method.

    The method draws a slot, and then one of the two words that share it.
    """

    threshold: npt.NDArray[np.uint32]
    alias: Ids

    @classmethod
    def of(cls, counts: npt.NDArray[np.int64], power: float = 0.75) -> Lottery:
        weight = counts.astype(np.float64) ** power
        share = weight * (len(counts) / weight.sum())  # 1 fills one slot
        alias = np.arange(len(counts), dtype=np.int32)
        small = [int(i) for i in np.flatnonzero(share < 1)]
        large = [int(i) for i in np.flatnonzero(share >= 1)]
        while small and large:
            needy, donor = small.pop(), large[-1]
            alias[needy] = donor
            share[donor] -= 1 - share[needy]
            if share[donor] < 1:
                small.append(large.pop())
        threshold = np.minimum(share * 2.0**32, 2.0**32 - 1).astype(np.uint32)
        return cls(threshold, alias)  # an unshared slot has itself as alias

    def words(self, bits: Bits) -> npt.NDArray[np.int64]:
        slot = below(bits, len(self.alias))
        coin = (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        return np.where(coin < self.threshold[slot], slot, self.alias[slot])


@dataclass(frozen=True)
class Windows:
    """Center words that were kept, each with its context and negative samples."""

    center: npt.NDArray[np.int64]  # [word]
    context: npt.NDArray[np.int64]  # [word, 2 window], -1 where there is none
    negative: npt.NDArray[np.int64]  # [word, negative], -1 where it is the center itself


def windows(
    corpus: Corpus,
    keep: Floats,
    lottery: Lottery,
    key: int,
    *,
    epoch: int,
    sentences: tuple[int, int],
    window: int,
    negative: int,
) -> Windows:
    """Returns the windows of a range of sentences in an epoch.

    Words without context are left out.
    """
    first, last = sentences
    begin, end = int(corpus.bounds[first]), int(corpus.bounds[last])
    ids = np.asarray(corpus.ids[begin:end], np.int64)
    place = np.arange(begin, end)
    sentence = np.repeat(np.arange(first, last), np.diff(corpus.bounds[first : last + 1]))
    stride = 2 + negative
    number = (epoch * len(corpus.ids) + place) * stride
    chance = (draws(key, number) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
    kept = chance < keep[ids]
    ids, sentence, number = ids[kept], sentence[kept], number[kept]

    reach = 1 + below(draws(key, number + 1), window)
    offsets = np.array([*range(-window, 0), *range(1, window + 1)])
    other = np.arange(len(ids))[:, None] + offsets  # [word, 2 window]
    inside = (other >= 0) & (other < len(ids)) & (abs(offsets) <= reach[:, None])
    other = np.where(inside, other, 0)
    inside &= sentence[other] == sentence[:, None] if len(ids) else inside
    context = np.where(inside, ids[other], -1) if len(ids) else other
    drawn = lottery.words(draws(key, number[:, None] + np.arange(2, stride)))
    drawn = np.where(drawn == ids[:, None], -1, drawn)
    some = inside.any(1)
    return Windows(ids[some], context[some], drawn[some])
