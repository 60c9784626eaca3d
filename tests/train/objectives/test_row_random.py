"""Random numbers of rows: known outputs, and that rows do not affect each other."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.train.objectives.row_random import GOLDEN, RowRandom, mixed

LENGTHS = np.array([3, 0, 7, 40])


def test_the_published_outputs_of_splitmix64():
    states = np.uint64(1234567) + np.arange(1, 6, dtype=np.uint64) * GOLDEN
    assert mixed(states).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_a_row_alone_draws_what_it_draws_among_others():
    every = RowRandom.of(5, 9, rows=np.arange(4))
    joined = np.split(every.uniform("a", LENGTHS), np.cumsum(LENGTHS)[:-1])
    for row, length in enumerate(LENGTHS.tolist()):
        alone = RowRandom.of(5, 9, rows=np.array([row]))
        assert alone.uniform("a", np.array([length])).tolist() == joined[row].tolist()
        assert alone.uniform("b")[0] == every.uniform("b")[row]
        assert every.take(np.array([row])).uniform("b")[0] == every.uniform("b")[row]
    longer = every.uniform("a", LENGTHS + 5)  # begins with the same numbers
    assert longer[:3].tolist() == joined[0].tolist()


def test_seeds_rows_names_and_children_differ():
    rows = np.arange(4)
    draws = RowRandom.of(1, 2, rows=rows)
    found = [
        draws.uniform("a", LENGTHS),
        draws.uniform("b", LENGTHS),
        draws.child("c").uniform("a", LENGTHS),
        RowRandom.of(1, 3, rows=rows).uniform("a", LENGTHS),
        RowRandom.of(1, 2, rows=rows + 4).uniform("a", LENGTHS),
    ]
    assert len(np.unique(np.concatenate(found))) == 5 * LENGTHS.sum()


def test_numbers_are_uniform_and_independent():
    draws = RowRandom.of(0, rows=np.arange(200))
    grid = draws.grid("a", 500)
    assert grid.min() >= 0 and grid.max() < 1
    counts, _ = np.histogram(grid, 50)
    assert ((counts - 2000) ** 2 / 2000).sum() < 90  # chi-square of 49 degrees: 99.9% are below 86
    for one, other in ((grid[:, :-1], grid[:, 1:]), (grid[:-1], grid[1:])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.012
    whole = draws.below("b", 7, np.full(200, 50))
    assert np.bincount(whole, minlength=7) == pytest.approx(10_000 / 7, rel=0.1)


def test_every_subset_of_a_size_is_equally_likely():
    draws = RowRandom.of(3, rows=np.arange(6000))
    among = np.tile([True, False, True, True, True], (6000, 1))
    chosen = draws.chosen("a", among, np.full(6000, 2))
    assert (chosen.sum(1) == 2).all() and not chosen[:, 1].any()
    _, counts = np.unique(chosen, axis=0, return_counts=True)
    assert len(counts) == 6 and counts == pytest.approx(1000, rel=0.12)
    none = draws.chosen("a", among, np.zeros(6000, np.int64))
    assert not none.any()
