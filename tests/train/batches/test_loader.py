"""The batches of a step are the same in any order and on any number of processes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glassformer.data import DataSettings
from glassformer.errors import GlassformerError
from glassformer.train.batches import make_loader, prepare
from glassformer.train.objectives.row_random import RowRandom
from tests.train.batches.letters import Letters

SETTINGS = {
    "stream": DataSettings(batching="concatenate", sequence_length=16),
    "varying": DataSettings(batching="variable-bptt", sequence_length=16),
    "pack": DataSettings(batching="pack", sequence_length=80),
    "single": DataSettings(batching="pad"),
    "buckets": DataSettings(batching="bucket", tokens_per_batch=300),
    "shapes": DataSettings(batching="bucket", tokens_per_batch=300, max_batch_shapes=3),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    lines = [f"{i} " + "word " * (i * 7 % 13) for i in range(100)]
    (folder / "a.txt").write_text("\n".join(lines))
    settings = DataSettings(train=(str(folder / "a.txt"),), document_boundary="line")
    return prepare(settings, "train", Letters(), folder / "cache", about={})


def loader(store, kind, **options):
    options = {"seed": 3, "batch": 8, "context": None, "ahead": 0, **options}
    return make_loader(SETTINGS[kind], store, Letters(), **options)


def whole_stream(store):
    (row,) = store.slices(np.array([0]), np.array([store.size]))
    return row["tokens"].tolist()


def rows_of(batches):
    """Every row as what is read and what was drawn for it, without padding."""
    return [
        (tuple(tokens[mask].tolist()), tuple(noise[mask].tolist()))
        for batch in batches
        for tokens, noise, mask in zip(
            *(batch.inputs[n] for n in ("input_ids", "noise", "attention_mask")), strict=True
        )
    ]


def same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert a.counts == b.counts and a.tokens == b.tokens
        assert all(torch.equal(a.inputs[name], b.inputs[name]) for name in a.inputs)


@pytest.mark.parametrize("kind", SETTINGS)
class TestSteps:
    def test_any_step_at_any_time(self, store, kind):
        straight = loader(store, kind)
        steps = [straight.batches(step) for step in range(40)]
        for step in (39, 0, 17, 17):
            same(loader(store, kind).batches(step), steps[step])
        assert rows_of(steps[0]) != rows_of(steps[1])
        assert rows_of(loader(store, kind, seed=4).batches(0)) != rows_of(steps[0])

    def test_work_ahead_changes_nothing(self, store, kind):
        plain = loader(store, kind, accumulate=2)
        ahead = loader(store, kind, accumulate=2, ahead=3)
        for step in (0, 1, 2, 3, 7, 8, 2, 3):  # also after a jump
            same(ahead.batches(step), plain.batches(step))
        ahead.close()
        same(ahead.batches(5), plain.batches(5))
        ahead.close()

    @pytest.mark.parametrize("world", [2, 3])
    def test_processes_share_the_rows(self, store, kind, world):
        alone = loader(store, kind, accumulate=2)
        for step in (0, 5):
            for micro, whole in enumerate(alone.batches(step)):
                shares = [alone.batches(step, rank, world)[micro] for rank in range(world)]
                assert rows_of(shares) == rows_of([whole])
                assert sum(share.tokens for share in shares) == whole.tokens

    def test_everything_comes_once_an_epoch(self, store, kind):
        each = loader(store, kind, batch=1)
        steps = int(each.steps_per_epoch)
        tokens = sum(b.tokens for step in range(steps) for b in each.batches(step))
        if kind == "varying":  # but for what is left over, or comes twice, of every stretch
            assert tokens == pytest.approx(each.tokens_per_epoch, rel=0.1)
            return
        assert each.steps_per_epoch == steps
        if kind == "shapes":  # but for what does not fill a batch
            assert each.tokens_per_epoch - 300 < tokens <= each.tokens_per_epoch
            return
        assert tokens == each.tokens_per_epoch
        assert each.epochs(3 * steps) == 3.0

    @pytest.mark.parametrize("world", [1, 2, 3])
    def test_a_sweep_is_over_everything_and_always_the_same(self, store, kind, world):
        one = loader(store, kind)
        whole = rows_of(one.sweep())
        shares = [list(loader(store, kind, seed=3).sweep(rank, world)) for rank in range(world)]
        assert len({len(share) for share in shares}) == 1
        found = [row for batches in zip(*shares, strict=True) for row in rows_of(batches)]
        assert found == whole
        tokens = sorted(token for row, _ in whole for token in row)
        assert tokens == sorted(whole_stream(store))


@pytest.mark.parametrize("kind", ["stream", "pack", "single"])
def test_accumulation_is_one_larger_batch(store, kind):
    small = loader(store, kind, batch=4, accumulate=3)
    large = loader(store, kind, batch=12)
    for step in (0, 9):
        assert rows_of(small.batches(step)) == rows_of(large.batches(step))
    assert small.steps_per_epoch == large.steps_per_epoch


def test_what_is_drawn_is_drawn_anew(store):
    """For the same example in another epoch, and for each row of a step."""
    each = loader(store, "single", batch=100)
    first, second = (dict(rows_of(each.batches(step))) for step in (0, 1))
    assert first.keys() == second.keys() and len(first) == 100
    assert all(first[tokens] != second[tokens] for tokens in first)
    lengths = np.array([3])
    expected = RowRandom.of(3, 1, rows=np.array([5])).below("noise", 1000, lengths)
    _, noise = rows_of(each.batches(1))[5]
    assert noise[:3] == tuple(expected.tolist())


def test_the_objective_says_what_the_recipe_does_not(store):
    made = make_loader(
        DataSettings(),
        store,
        Letters("concatenate", beyond=1),
        context=32,
        seed=1,
        batch=2,
        ahead=0,
    )
    assert made.batches(0)[0].inputs["input_ids"].shape == (2, 33)
    with pytest.raises(GlassformerError, match=r"set data\.sequence_length"):
        make_loader(DataSettings(), store, Letters(), context=None, seed=1, batch=2)
    with pytest.raises(GlassformerError, match=r"needs data\.tokens"):
        DataSettings(batching="bucket")
    with pytest.raises(GlassformerError, match=r"data\.max_batch_shapes is for .*bucket"):
        DataSettings(max_batch_shapes=4)


def test_batches_of_few_shapes(store):
    even, steps = loader(store, "shapes"), range(60)
    shapes = {even.batches(step)[0].inputs["input_ids"].shape for step in steps}
    assert len(shapes) == 3 and all(rows * slots <= 300 for rows, slots in shapes)
    plain = {loader(store, "buckets").batches(step)[0].inputs["input_ids"].shape for step in steps}
    assert len(plain) > 3


def test_more_processes_than_rows(store):
    with pytest.raises(
        GlassformerError, match=r"batch of 8 rows .* 9 processes; raise train.batch_size"
    ):
        loader(store, "single").batches(0, 0, 9)
    with pytest.raises(GlassformerError, match="101 processes cannot share 100 rows"):
        next(loader(store, "single").sweep(0, 101))


def test_an_error_ahead_is_said_when_its_step_comes(store):
    made = loader(store, "single", ahead=2)
    objective = made.maker.objective
    collate, calls = objective.collate, []

    def failing(examples):
        calls.append(1)
        if len(calls) == 2:
            raise GlassformerError("the second one")
        return collate(examples)

    objective.collate = failing
    made.batches(0)
    with pytest.raises(GlassformerError, match="the second one"):
        made.batches(1)
    made.close()


def test_other_rows_come_along(store):
    """Drawn for each row anew, from all of them."""
    drawn = []

    class Curious(Letters):
        def vary(self, rows, draws):
            for example in rows:
                assert example.keys() == {
                    f"{prefix}{name}"
                    for prefix in ("", "other.0.", "other.1.")
                    for name in ("tokens", "places")
                }
                drawn.append([bytes(example[f"{p}tokens"]) for p in ("", "other.0.", "other.1.")])
            return super().vary(rows, draws)

    options = {"context": None, "seed": 3, "batch": 50, "ahead": 0}
    made = make_loader(SETTINGS["single"], store, Curious(others=2), **options)
    made.batches(0)
    first = list(drawn)
    assert len({row[1] for row in first}) > 25 and all(row[1] != row[2] for row in first[:5])
    drawn.clear()
    made.batches(0)
    assert drawn == first
    drawn.clear()
    list(made.sweep())
    assert len({row[1] for row in drawn}) > 50
