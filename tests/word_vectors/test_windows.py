"""Windows and samples, compared with a plain loop and with the right proportions."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.word_vectors.windows import Lottery, draws, key_of, windows

MASK = (1 << 64) - 1


def splitmix(state: int) -> int:
    """As published, on Python's own integers."""
    z = state & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def test_draws_are_splitmix64():
    """The first numbers of the published generator from state 1234567."""
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert draws(1234567, np.arange(3)).tolist() == known


def test_negatives_come_as_the_counts_to_three_quarters():
    counts = np.array([1000, 100, 100, 10, 1])
    lottery = Lottery.of(counts)
    drawn = lottery.words(draws(key_of(3), np.arange(400_000)))
    share = np.bincount(drawn, minlength=5) / len(drawn)
    wanted = counts**0.75 / (counts**0.75).sum()
    assert np.abs(share - wanted).max() < 3e-3


@pytest.mark.parametrize("sentences", [(0, 400), (7, 31)])
def test_windows_by_a_plain_loop(corpus, sentences):
    keep, lottery, key = corpus.keep(1e-2), Lottery.of(corpus.counts), key_of(5)
    assert keep.min() < 0.5  # so that some words are dropped
    found = windows(corpus, keep, lottery, key, epoch=2, sentences=sentences, window=3, negative=4)
    row = 0
    for sentence in range(*sentences):
        begin, end = corpus.bounds[sentence : sentence + 2].tolist()
        kept = []
        for place in range(begin, end):
            number = (2 * len(corpus.ids) + place) * 6
            draw = [splitmix(key + (number + j + 1) * 0x9E3779B97F4A7C15) for j in range(6)]
            if (draw[0] >> 40) / 2**24 < keep[corpus.ids[place]]:
                kept.append((int(corpus.ids[place]), draw))
        for i, (word, draw) in enumerate(kept):
            reach = 1 + draw[1] * 3 // 2**64
            context = [w for w, _ in kept[max(0, i - reach) : i]]
            context += [w for w, _ in kept[i + 1 : i + 1 + reach]]
            if not context:
                continue
            assert found.center[row] == word
            assert [c for c in found.context[row].tolist() if c >= 0] == context
            drawn = lottery.words(np.array(draw[2:], np.uint64))
            assert found.negative[row].tolist() == [-1 if n == word else n for n in drawn.tolist()]
            row += 1
    assert row == len(found.center)


def test_frequent_words_are_kept_as_word2vec_keeps_them(corpus):
    share = corpus.counts / corpus.counts.sum()
    wanted = (np.sqrt(share / 1e-2) + 1) * 1e-2 / share
    np.testing.assert_allclose(corpus.keep(1e-2), wanted, rtol=1e-6)
    assert (corpus.keep(0) == 1).all()
