"""Learning rate schedules, compared with their formulas."""

from __future__ import annotations

import math

import pytest
import torch
from optimizing import Settings

from glassformer import GlassformerError
from glassformer.train.schedules import SCHEDULES, schedule, set_rate


def test_cosine_is_nanogpts():
    """train.py of nanoGPT: get_lr, of steps counted from 0."""
    rate, least, warmup, steps = 6e-4, 6e-5, 20, 200

    def theirs(it: int) -> float:
        if it < warmup:
            return rate * (it + 1) / (warmup + 1)
        if it > steps:
            return least
        share = (it - warmup) / (steps - warmup)
        return least + 0.5 * (1.0 + math.cos(math.pi * share)) * (rate - least)

    factor = schedule(
        Settings(
            learning_rate=rate, num_warmup_steps=warmup, num_training_steps=steps, min_lr_ratio=0.1
        )
    )
    for step in (0, 1, 19, 20, 21, 100, 199, 200, 300):
        assert rate * factor(step) == pytest.approx(theirs(step), rel=1e-12)


def test_linear():
    factor = schedule(
        Settings(
            lr_scheduler="linear", num_warmup_steps=10, num_training_steps=110, min_lr_ratio=0.2
        )
    )
    written_out = {0: 1 / 11, 9: 10 / 11, 10: 1.0, 35: 0.8, 60: 0.6, 109: 0.208, 110: 0.2, 500: 0.2}
    for step, value in written_out.items():
        assert factor(step) == pytest.approx(value, rel=1e-12)


def test_constant():
    factor = schedule(Settings(lr_scheduler="constant", num_warmup_steps=3))
    assert [factor(step) for step in (0, 1, 2, 3, 4, 9999)] == [0.25, 0.5, 0.75, 1, 1, 1]
    assert schedule(Settings(lr_scheduler="constant"))(0) == 1


@pytest.mark.parametrize("warmup", [1, 40, 4000])
def test_that_of_2017(warmup):
    """Vaswani et al., 2017, equation 3; steps are counted from 1 there."""
    width = 512
    original = schedule(Settings(lr_scheduler="transformer", num_warmup_steps=warmup), width)
    for step in (0, 1, 38, 39, 40, 3999, 4000, 100_000):
        number = step + 1
        theirs = width**-0.5 * min(number**-0.5, number * warmup**-1.5)
        assert original(step) == pytest.approx(theirs, rel=1e-12)
    peak = schedule(Settings(lr_scheduler="inverse-square-root", num_warmup_steps=warmup))
    assert peak(warmup - 1) == 1
    assert peak(4 * warmup - 1) == pytest.approx(0.5)


def test_its_floor_is_a_share_of_the_peak():
    given = {"num_warmup_steps": 4, "min_lr_ratio": 0.5}
    factor = schedule(Settings(lr_scheduler="inverse-square-root", **given))
    assert [factor(step) for step in (0, 3, 15, 63)] == [0.25, 1, 0.5, 0.5]
    original = schedule(Settings(lr_scheduler="transformer", **given), 16)
    assert original(10**6) == pytest.approx(0.5 * (16 * 4) ** -0.5)


def test_adafactors_own_is_that_of_the_reference():
    factor = schedule(Settings(lr_scheduler="relative-step", learning_rate=1e-2))
    for step in (0, 1, 5000, 9999, 10_000, 40_000, 10**6):
        assert 1e-2 * factor(step) == pytest.approx(min(1e-2, (step + 1) ** -0.5), rel=1e-12)


def test_the_slanted_triangle_is_ulmfits():
    """Howard and Ruder, 2018, equation 3, with T = 1,000 and their cut_frac and ratio."""
    total, cut_frac, ratio = 1000, 0.1, 32
    cut = math.floor(total * cut_frac)
    factor = schedule(Settings(lr_scheduler="slanted-triangular", num_training_steps=total))
    for step in (0, 1, 50, 99, 100, 101, 500, 999, 1000):
        p = step / cut if step < cut else 1 - (step - cut) / (cut * (1 / cut_frac - 1))
        assert factor(step) == pytest.approx((1 + p * (ratio - 1)) / ratio, rel=1e-9)
    floored = schedule(
        Settings(lr_scheduler="slanted-triangular", num_training_steps=total, min_lr_ratio=0.25)
    )
    assert floored(0) == 1 / 32 and floored(100) == 1 and floored(999) == 0.25


@pytest.mark.parametrize("steps", [1, 7, 105])
@pytest.mark.parametrize("name", SCHEDULES)
def test_no_length_of_a_run_gives_a_rate_below_zero_or_beyond_the_peak(name, steps):
    for warmup in (0, 1, 100):
        factor = schedule(
            Settings(
                lr_scheduler=name,
                num_training_steps=steps,
                num_warmup_steps=warmup,
                cut_fraction=0.07,
            ),
            64,
        )
        assert all(0 < factor(step) <= 1 for step in range(steps))


def test_every_group_gets_its_share():
    groups = [
        {"params": [torch.zeros(1, requires_grad=True)], "share": share} for share in (1, 0.25)
    ]
    optimizer = torch.optim.SGD(groups, lr=1.0)
    set_rate(optimizer, 0.8)
    assert [group["lr"] for group in optimizer.param_groups] == [0.8, 0.2]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"lr_scheduler": "cosin"}, "did you mean 'cosine'"),
        ({"lr_scheduler": "transformer"}, "the model's width"),
        ({"num_warmup_steps": -1}, "at least 0"),
        ({"min_lr_ratio": 1.5}, "from 0 to 1"),
        ({"lr_scheduler": "slanted-triangular", "cut_fraction": 1.0}, "slanted triangle"),
        ({"learning_rate": 0.0}, "above 0"),
    ],
)
def test_bad_settings(wrong, says):
    with pytest.raises(GlassformerError, match=says):
        schedule(Settings(**wrong))
