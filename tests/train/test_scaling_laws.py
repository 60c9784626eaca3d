"""Scaling laws: known constants are recovered."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.train import scaling_fit
from glassformer.train.scaling_fit import Law, fit

COMPUTE = np.logspace(14, 18, 10)[:, None]
LAW = Law((40.0,), (0.1,), 1.7)
GRID = np.array([[n, d] for n in np.logspace(5, 9, 5) for d in np.logspace(6, 11, 5)])
HOFFMANN = Law((406.4, 410.7), (0.34, 0.28), 1.69)


def said(law: Law) -> list[float]:
    return [*law.scales, *law.exponents, law.floor]


def losses(law: Law, x: np.ndarray) -> np.ndarray:
    return np.array([law(*row) for row in x])


@pytest.mark.parametrize(
    ("law", "x"),
    [
        (LAW, COMPUTE),
        (Law((3.0,), (0.7,), 0.02), np.logspace(0, 3, 5)[:, None]),
        (Law((8e4,), (0.5,), 2.5), np.logspace(6, 9, 4)[:, None]),
        (HOFFMANN, GRID),
        (Law((20.0, 3e3), (0.2, 0.5), 1.2), GRID[::2]),
    ],
)
def test_without_noise_the_law_is_found_exactly(law, x):
    found = fit(x, losses(law, x))
    assert said(found.law) == pytest.approx(said(law), rel=1e-6)
    assert said(found.low) == pytest.approx(said(found.high), rel=1e-6)
    assert found.error < 1e-9


@pytest.mark.parametrize(("law", "x"), [(LAW, COMPUTE), (HOFFMANN, GRID)])
def test_with_noise_the_law_lies_in_the_interval(law, x):
    """Of 95%; here of one draw of noise, so that nothing is left to chance."""
    noise = np.random.default_rng(3).normal(0, 0.004, len(x))
    found = fit(x, losses(law, x) * np.exp(noise))
    for low, value, high, true in zip(
        *map(said, (found.low, found.law, found.high, law)), strict=True
    ):
        assert low < value < high
        assert low < true < high
    assert 0.002 < found.error < 0.006
    assert said(fit(x, losses(law, x) * np.exp(noise)).low) == said(found.low)


def test_a_run_that_went_wrong_counts_little():
    wrong = losses(HOFFMANN, GRID)
    wrong[7] *= 1.5
    found = fit(GRID, wrong)
    assert said(found.law) == pytest.approx(said(HOFFMANN), rel=1e-2)


def test_a_law_without_a_floor_has_nearly_none():
    found = fit(COMPUTE, losses(Law((40.0,), (0.1,), 0.0), COMPUTE))
    assert found.law.exponents[0] == pytest.approx(0.1, rel=1e-2) and found.law.floor < 0.02


def test_losses_that_follow_no_law_are_fitted_all_the_same():
    """Of real runs that are too small: constants that hardly matter, or run away."""
    x = np.array([[n, 2560.0 * t] for n in (888, 3312, 12768) for t in (1, 3, 6)])
    measured = np.array([4.3438, 3.834, 3.4432, 4.1633, 3.5122, 3.3359, 3.7, 3.3, 3.2])
    for loss in (measured, measured[::-1], np.full(9, 2.0), 2 + 1e-12 * measured):
        found = fit(x, loss)
        assert np.isfinite(said(found.law)).all() and found.error < 0.2


def test_slopes_are_those_of_small_steps():
    rng = np.random.default_rng(0)
    at, x = rng.normal(0, 1, (3, 5)), rng.normal(0, 2, (7, 2))
    slope = scaling_fit._slope(at, x)
    for parameter in range(5):
        moved = np.eye(5)[parameter] * 1e-6
        change = scaling_fit._predicted(at + moved, x) - scaling_fit._predicted(at - moved, x)
        assert slope[..., parameter] == pytest.approx(change / 2e-6, abs=1e-8)
