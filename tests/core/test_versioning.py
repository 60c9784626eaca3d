"""A version shows every change, and nothing else."""

from __future__ import annotations

import pytest
import tiny
import torch
from silent_changes import SILENT

from glassformer.core import versioning
from glassformer.core.versioning import ModelVersion, TensorVersion, in_one_call, one_call


@pytest.mark.parametrize("change", SILENT.values(), ids=SILENT)
def test_changes_that_pytorch_does_not_count(change):
    model = tiny.transformer(tiny.encoder(2))
    weight = model.encoder.blocks[0].ffn.up.weight
    count, version = weight._version, ModelVersion(model)
    assert version.matches(model)
    change([weight])
    assert weight._version == count
    assert not version.matches(model)


def test_what_is_stored_elsewhere_is_the_same():
    x = torch.randn(5, 7)
    version = TensorVersion(x.T)
    assert version.matches(x.T) and version.matches(x.T.contiguous())
    other = x.clone()
    other[3, 4] += 1
    assert not version.matches(other.T) and not version.matches(other.T.contiguous())
    assert not version.matches(x) and not version.matches(x.T.double())


def test_a_call_reads_the_weights_once(monkeypatch):
    read = []
    plain = versioning.checksums
    monkeypatch.setattr(versioning, "checksums", lambda x: read.append(len(x)) or plain(x))
    x, y = torch.randn(3), torch.randn(3)

    def steps():
        for _ in range(3):
            assert version.matches(x, y)
            yield

    with one_call():
        version = TensorVersion(x, y)
        with one_call():
            assert version.matches(x, y)
    assert sum(read) == 2
    for _ in in_one_call(steps()):
        assert versioning._known.get() is None  # between the steps of a call
    assert sum(read) == 4
    x.data.mul_(2)
    assert not version.matches(x, y)
