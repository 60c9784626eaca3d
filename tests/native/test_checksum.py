"""Checksums show every change of a tensor's bytes."""

from __future__ import annotations

import pytest
import torch

from glassformer import native
from glassformer.native import checksum
from glassformer.native.checksum import checksums

SIZES = (1, 63, 64, 65, 4096, 300_001)
ON_A_DEVICE = lambda tensors: [int(checksum._on_device(tensor)) for tensor in tensors]  # noqa: E731


@pytest.fixture(params=["compiled", "without a compiler", "on a device"])
def sums(request, monkeypatch):
    if request.param == "compiled" and native.library(checksum.SOURCE) is None:
        pytest.skip("there is no compiler here")
    if request.param == "without a compiler":
        monkeypatch.setattr(native, "library", lambda *_: None)
    if request.param == "on a device":
        monkeypatch.setattr(checksum, "WORDS", 1 << 10)
        monkeypatch.setattr(checksum, "_kept", {})
        return ON_A_DEVICE
    return checksums


def weight(rows, columns=1):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("size", SIZES)
def test_one_number(sums, size):
    x = weight(size)
    (before,) = sums([x])
    assert sums([x.clone()]) == [before]
    for place in {0, size // 2, size - 1}:
        for change in (lambda v: v * (1 + 2**-23), lambda v: -v, lambda v: v * 0):
            other = x.clone()
            other[place] = change(other[place])
            assert sums([other]) != [before]


def test_changes_that_sums_do_not_show(sums):
    x = weight(512, 64)
    changed = {
        "every sign": -x,
        "signs of a column": torch.where(torch.arange(64) == 1, -x, x),
        "rows in another order": x.flip(0),
        "two numbers exchanged": torch.cat((x[1:2], x[:1], x[2:])),
        "doubled": 2 * x,
        "one number more": torch.cat((x.view(-1), torch.zeros(1))),
        "another place": x.roll(16, 0),
    }
    found = sums([x, *changed.values()])
    assert len(set(found)) == len(found)


def test_every_dtype_and_an_empty_tensor(sums):
    kinds = (torch.float32, torch.bfloat16, torch.int8, torch.uint8, torch.bool)
    for dtype in kinds:
        x = (weight(37, 3) > 0).to(dtype)
        other = x.clone()
        other[-1, -1] = 1 - other[-1, -1].float()
        assert sums([x]) != sums([other])
    assert sums([torch.empty(0), torch.ones(())])


def test_the_number_of_threads_does_not_matter():
    x, threads = [weight(700_001), weight(3)], torch.get_num_threads()
    found = []
    for count in (1, 2, 5):
        torch.set_num_threads(count)
        found.append(checksums(x))
    torch.set_num_threads(threads)
    assert found[0] == found[1] == found[2]
