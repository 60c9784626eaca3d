"""Samplers: permutations without stored indices, and batches of similar length."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise

import numpy as np
import pytest

from glassformer.errors import GlassformerError
from glassformer.train.batches.sampler import (
    GRAIN,
    Bucketed,
    Even,
    Shuffle,
    Shuffled,
    _few,
    shuffled,
)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 16, 17, 100, 1023, 4097, 70_001])
def test_a_shuffle_is_a_permutation(size):
    everything = np.arange(size)
    found = Shuffle(size, 3, 0)(everything)
    assert sorted(found.tolist()) == everything.tolist()
    one_by_one = [int(Shuffle(size, 3, 0)(np.array([i]))[0]) for i in range(min(size, 50))]
    assert one_by_one == found[:50].tolist()
    some = everything[[*range(0, size, 7), size - 1]]
    assert shuffled(some, size, 3, 0).tolist() == found[some].tolist()
    if size > 50:
        for other in (Shuffle(size, 3, 1), Shuffle(size, 4, 0)):
            assert (other(everything) != found).mean() > 0.9


def test_a_shuffle_is_even():
    """Over many keys each value comes equally often at each place, and after each other value."""
    size, keys = 6, 1500
    found = np.array([Shuffle(size, key)(np.arange(size)) for key in range(keys)])
    for place in range(size):
        counts = np.bincount(found[:, place], minlength=size)
        assert (abs(counts - keys / size) < 5 * np.sqrt(keys / size)).all()
    pairs = Counter((a, b) for row in found.tolist() for a, b in pairwise(row))
    share = keys * (size - 1) / (size * (size - 1))
    assert len(pairs) == size * (size - 1)
    assert all(abs(count - share) < 6 * np.sqrt(share) for count in pairs.values())
    long = Shuffle(100_000, 1)(np.arange(100_000))
    assert abs(np.corrcoef(np.arange(100_000), long)[0, 1]) < 0.02


def test_a_shuffle_of_more_than_memory_holds():
    many = 10**15
    places = np.array([0, 1, many - 1])
    found = Shuffle(many, 1)(places)
    assert len(set(found.tolist())) == 3 and (found < many).all() and (found >= 0).all()


@pytest.mark.parametrize(("rows", "batch"), [(10, 4), (8, 4), (3, 8), (1, 2)])
def test_every_row_comes_once_an_epoch(rows, batch):
    order = Shuffled(rows, batch, seed=5)
    assert order.epoch == rows / batch
    places = [place for number in range(3 * rows) for place in order.batch(number)]
    for epoch in range(batch):
        inside = places[epoch * rows : (epoch + 1) * rows]
        assert {one for one, _ in inside} == {epoch}
        assert sorted(row for _, row in inside) == list(range(rows))
    assert order.batch(7) == Shuffled(rows, batch, seed=5).batch(7)
    larger = Shuffled(rows, 2 * batch, seed=5)
    assert larger.batch(3) == order.batch(6) + order.batch(7)


@pytest.mark.parametrize(
    ("rows", "batch", "world"), [(10, 4, 1), (9, 8, 4), (9, 4, 4), (4, 8, 3), (1003, 8, 4)]
)
def test_a_sweep_has_everything_once_and_something_for_everybody(rows, batch, world):
    batches = Shuffled(rows, batch, seed=5).sweep(rows, world)
    assert np.concatenate(batches).tolist() == list(range(rows))
    assert min(map(len, batches)) >= world
    assert max(map(len, batches)) <= max(batch, 2 * world)


class TestBuckets:
    @pytest.fixture
    def lengths(self):
        return np.random.default_rng(1).integers(1, 200, 3000)

    def test_every_row_comes_once_an_epoch_in_batches_of_the_right_size(self, lengths):
        order = Bucketed(lengths, 1024, seed=2)
        batches = int(order.epoch)
        seen = []
        for epoch in range(3):
            rows = [
                [row for one, row in order.batch(epoch * batches + i) if one == epoch]
                for i in range(batches)
            ]
            assert sorted(row for batch in rows for row in batch) == list(range(len(lengths)))
            padded = [len(batch) * lengths[batch].max() for batch in rows]
            assert max(padded) <= 1024
            assert sum(padded) < 1.1 * lengths.sum(), "little is padding"
            assert np.median(padded) > 0.8 * 1024, "batches are full"
            assert min(map(len, rows)) == order.smallest >= 3
            seen.append(rows)
        assert seen[0] != seen[1]
        together = [{frozenset(batch) for batch in rows} for rows in seen]
        assert len(together[0] & together[1]) < batches // 4, "other rows share a batch"
        sizes = [lengths[batch].max() for batch in seen[0]]
        assert abs(np.corrcoef(np.arange(batches), sizes)[0, 1]) < 0.2, "lengths come mixed"

    def test_any_batch_is_found_alone(self, lengths):
        order = Bucketed(lengths, 1024, seed=2)
        assert [order.batch(i) for i in (900, 3, 41)] == [
            Bucketed(lengths, 1024, seed=2).batch(i) for i in (900, 3, 41)
        ]

    def test_a_sweep_goes_by_length(self, lengths):
        batches = Bucketed(lengths, 1024, seed=2).sweep(len(lengths), 2)
        rows = np.concatenate(batches)
        assert sorted(rows.tolist()) == list(range(len(lengths)))
        assert (np.diff(lengths[rows]) > -GRAIN).all()

    @pytest.mark.parametrize("lengths", [[5], [5, 6], [0, 0, 9], [8] * 17, [1] * 100 + [64]])
    def test_few_rows(self, lengths):
        order = Bucketed(np.array(lengths), 64, seed=2)
        found = [row for i in range(int(order.epoch)) for _, row in order.batch(i)]
        assert sorted(found) == list(range(len(lengths)))

    def test_a_row_that_fits_no_batch(self):
        with pytest.raises(
            GlassformerError, match=r"example of 65 tokens.*data.tokens_per_batch = 64"
        ):
            Bucketed(np.array([3, 65]), 64, seed=2)


class TestFewShapes:
    @pytest.mark.parametrize("shapes", [1, 2, 5, 12, 100])
    def test_batches_of_few_shapes_with_almost_every_row(self, shapes):
        lengths = np.random.default_rng(1).gamma(4, 10, 3000).astype(int) + 1
        short = lengths // 3
        fields = {"long": lengths, "short": short}
        order = Even(lengths, 1024, seed=2, shapes=shapes, fields=fields)
        batches = int(order.epoch)
        left_out = []
        for epoch in range(3):
            numbers = range(epoch * batches, (epoch + 1) * batches)
            rows = [[row for _, row in order.batch(i)] for i in numbers]
            seen = [row for batch in rows for row in batch]
            assert len(set(seen)) == len(seen)
            left_out.append(set(range(3000)) - set(seen))
            slots = [order.slots(i) for i in numbers]
            found = zip(rows, slots, strict=True)
            kinds = {(len(batch), *size.values()) for batch, size in found}
            assert len(kinds) <= shapes
            assert all(1024 - size < rows * size <= 1024 for rows, size, _ in kinds)
            for batch, size in zip(rows, slots, strict=True):
                assert lengths[batch].max() <= size["long"]
                assert short[batch].max() <= size["short"] <= size["long"]
        most = max(rows for rows, *_ in kinds)
        assert all(len(rows) < most for rows in left_out)
        assert not left_out[0] or left_out[0] != left_out[1]
        assert sorted(np.concatenate(order.sweep(3000, 2)).tolist()) == list(range(3000))
        assert order.batch(7) == Even(lengths, 1024, 2, shapes, fields).batch(7)

    def test_lengths_are_those_that_need_the_least_padding(self):
        """Beside all choices there are."""
        rng = np.random.default_rng(3)
        for _ in range(20):
            lengths = rng.integers(1, 60, 40)
            rounded = -(-lengths // GRAIN) * GRAIN
            sizes, counts = np.unique(rounded, return_counts=True)
            for most in (1, 2, 3):
                least = min(
                    sum(min(s for s in some if s >= one) for one in rounded)
                    for some in combinations(sizes.tolist(), min(most, len(sizes)))
                    if some[-1] == sizes[-1]
                )
                few = _few(sizes, counts, most)
                assert sum(min(s for s in few if s >= one) for one in rounded) == least

    @pytest.mark.parametrize("lengths", [[5], [5, 6], [0, 0, 9], [8] * 17, [1] * 100 + [64]])
    def test_few_rows(self, lengths):
        order = Even(np.array(lengths), 64, seed=2, shapes=4, fields={})
        found = {row for i in range(40 * int(order.epoch)) for _, row in order.batch(i)}
        assert found == set(range(len(lengths))), "sooner or later each comes"
