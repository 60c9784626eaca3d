"""Recordings are dropped when they would read old weights, and only a few are kept."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

import glassformer as gf
from glassformer.generate.recordings import MOST, Recordings, storage_of


@pytest.fixture
def model():
    return gf.create("gpt2", n_layer=1, n_embd=16, n_head=2, vocab_size=50)


def up(model):
    return model.decoder.blocks[0].ffn.up


def replaced(model):
    up(model).weight.data = up(model).weight.data.clone()


def transposed(model):
    up(model).weight.data = up(model).weight.data.T.contiguous().T


CHANGES = {
    "data": replaced,
    "strides": transposed,
    "dtype of a part": lambda model: model.decoder.double(),
    "quantized": lambda model: model.quantize("int8"),
    "an adapter": lambda model: model.adapters.add(gf.LoRA(rank=2)),
    "assigned": lambda model: model.load_state_dict(
        {name: weight.clone() for name, weight in model.state_dict().items()}, assign=True
    ),
    "a hook": lambda model: up(model).register_forward_hook(lambda module, args, out: out * 2),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_weights_that_are_stored_elsewhere(model, change):
    recordings, place = Recordings(), storage_of(model)
    recordings.give("a", object(), place)
    change(model)
    assert recordings.take(model, "a") is None and not recordings.kept


def test_values_that_change_where_they_are(model):
    """A graph reads them at their place."""
    recordings, one = Recordings(), object()
    recordings.give("a", one, storage_of(model))
    with torch.no_grad():
        up(model).weight.mul_(2)
        up(model).weight.data.mul_(2)
    assert recordings.take(model, "a") is one
    assert recordings.take(model, "a") is None  # another call has it


def test_a_recording_of_a_call_during_which_the_model_changed(model):
    recordings, place = Recordings(), storage_of(model)
    replaced(model)
    recordings.give("a", object(), place)
    assert recordings.take(model, "a") is None


def test_the_latest_are_kept(model):
    recordings, place = Recordings(), storage_of(model)
    for number in range(MOST + 2):
        recordings.give(number, f"recording {number}", place)
        recordings.give(1, "recording 1", place)
    assert len(recordings.kept) == MOST
    assert recordings.take(model, 1) == "recording 1"
    assert not copy.deepcopy(recordings).kept


def test_spare_rows_of_an_old_weight_are_not_read(model):
    linear = up(model)
    padded = F.pad(linear.weight.detach(), (0, 0, 0, 3))
    linear.weight.data, linear.padded_weight = padded[: len(linear.weight)], padded
    assert linear.with_spare_rows() is padded
    replaced(model)
    assert linear.with_spare_rows() is None
