"""Batches are the same for any number of worker processes."""

from __future__ import annotations

import pytest
import torch

from glassformer.data import DataSettings
from glassformer.errors import GlassformerError
from glassformer.train.batches import make_loader, prepare
from tests.train.batches.letters import END, Letters

SETTINGS = DataSettings(batching="pack", sequence_length=80)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    lines = [f"{i} " + "word " * (i * 7 % 13) for i in range(100)]
    (folder / "a.txt").write_text("\n".join(lines))
    settings = DataSettings(train=(str(folder / "a.txt"),), document_boundary="line")
    return prepare(settings, "train", Letters(), folder / "cache", about={})


def loader(store, objective, **options):
    given = {"context": None, "seed": 3, "batch": 8, "accumulate": 2, **options}
    return make_loader(SETTINGS, store, objective, **given)


def same(one, other):
    assert len(one) == len(other) == 2
    for a, b in zip(one, other, strict=True):
        assert a.counts == b.counts and a.tokens == b.tokens
        assert a.inputs.keys() == b.inputs.keys() and a.targets.keys() == b.targets.keys()
        for name, tensor in (a.inputs | a.targets).items():
            assert torch.equal(tensor, (b.inputs | b.targets)[name])
            assert tensor.dtype == (b.inputs | b.targets)[name].dtype


def test_processes_change_nothing(store):
    plain = loader(store, Letters(), ahead=0)
    shared = loader(store, Letters(), ahead=2, workers=2)
    for step in (0, 1, 2, 3, 7, 8, 2):  # also after a jump
        same(shared.batches(step), plain.batches(step))
        same(shared.batches(step, 1, 2), plain.batches(step, 1, 2))
    assert len(shared.feed._processes) == 2
    shared.close()
    same(shared.batches(5), plain.batches(5))
    shared.close()


def test_an_error_in_a_process_is_said_when_its_step_comes(store):
    first = [batch.inputs["input_ids"].flatten() for batch in loader(store, Letters()).batches(0)]
    text = "".join(map(chr, torch.cat([torch.tensor([END]), *first]).tolist()))
    later = next(number for number in range(100) if f"{chr(END)}{number} " not in text)
    made = loader(store, Letters(fails_at=later), ahead=1, workers=1)
    made.batches(0)
    with pytest.raises(GlassformerError, match=f"the row {later} is odd"):
        for step in range(1, 20):
            made.batches(step)
    made.close()


def test_a_process_that_dies_is_named(store):
    made = loader(store, Letters(), ahead=1, workers=1)
    made.batches(0)
    made.batches(1)
    made.feed._processes[0].kill()
    with pytest.raises(GlassformerError, match=r"makes batches has died.*data\.num_workers"):
        for step in range(2, 9):
            made.batches(step)
    made.close()


def test_an_objective_that_processes_cannot_have_is_made_here(store):
    class Local(Letters):
        pass

    made = loader(store, Local(), ahead=2, workers=2)
    same(made.batches(4), loader(store, Letters(), ahead=0).batches(4))
    assert not made.feed._processes
    made.close()
