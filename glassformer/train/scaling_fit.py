"""Fits a sum of power laws and a constant to measured losses.

L(x) = sum_k A_k x_k^-b_k + E. With one x it is the law of Henighan et al. (2020), with x = (N, D)
that of Hoffmann et al. (2022, 3.3). As there, logarithms are fitted with the Huber loss from many
starting points; here by the Levenberg-Marquardt method, all fits at once, which scipy cannot do.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DELTA = 1e-3  # threshold of the Huber loss on log L, as in Hoffmann et al.
EFFICIENT = 1.345  # threshold in units of the noise, if that is more: Huber's own choice
ITERATIONS = 200
EXPONENTS = (0.05, 0.15, 0.4, 1.0)  # starting values
FLOORS = (0.3, 0.8, 0.97)  # starting values, as fractions of the lowest loss
DRAWN = 400  # number of bootstrap samples
SHARE = 95.0  # percent of the samples that the confidence intervals contain


@dataclass(frozen=True)
class Law:
    """A scaling law: `scales` A_k and `exponents` b_k of each x, and `floor` E."""

    scales: tuple[float, ...]
    exponents: tuple[float, ...]
    floor: float

    def __call__(self, *x: float) -> float:
        powers = zip(self.scales, self.exponents, x, strict=True)
        return self.floor + sum(float(scale * at**-exponent) for scale, exponent, at in powers)


@dataclass(frozen=True)
class LawFit:
    """A fitted law with its confidence interval.

    `low` and `high` bound the middle 95% of fits to resampled residuals; `error` is the root mean
    square of the residuals of log L.
    """

    law: Law
    low: Law
    high: Law
    error: float


def fit(x: Array, loss: Array, *, seed: int = 0) -> LawFit:
    """Fits a law.

    Args:
        x: Positive values, [run, term]; more than 2 terms + 1 runs.
        loss: Losses, [run].
        seed: Seed of the bootstrap samples.
    """
    log_x, log_loss = np.log(x), np.log(loss)
    middle = log_x.mean(0)  # there, the scales are known best and separate from the exponents
    centered = log_x - middle
    found = _levenberg_marquardt(_starts(centered, log_loss), centered, log_loss, DELTA)
    best = found[np.argmin(_cost(found, centered, log_loss, DELTA))]
    noise = 1.4826 * np.median(np.abs(log_loss - _predicted(best[None], centered)[0]))
    delta = max(DELTA, EFFICIENT * noise)
    best = _levenberg_marquardt(best[None], centered, log_loss, delta)[0]
    residual = log_loss - _predicted(best[None], centered)[0]
    resampled = _resampled(best, centered, residual, np.random.default_rng(seed))
    drawn = _levenberg_marquardt(np.repeat(best[None], DRAWN, 0), centered, resampled, delta)
    many = _natural(drawn, middle)
    edges = np.percentile(many, [(100 - SHARE) / 2, (100 + SHARE) / 2], axis=0)
    return LawFit(
        _law(_natural(best[None], middle)[0]),
        _law(edges[0]),
        _law(edges[1]),
        float(np.sqrt(np.mean(residual**2))),
    )


def _starts(log_x: Array, log_loss: Array) -> Array:
    """Returns starting points, [start, parameter].

    The parameters are log scales at the center, exponents and the log floor.
    """
    terms, lowest = log_x.shape[1], np.exp(log_loss.min())
    over = np.exp(np.median(log_loss))
    found = []
    for floor in FLOORS:
        left = max(over - floor * lowest, 1e-3 * over) / terms
        for exponents in product(EXPONENTS, repeat=terms):
            found.append([*[np.log(left)] * terms, *exponents, np.log(floor * lowest)])
    return np.array(found)


def _resampled(best: Array, log_x: Array, residual: Array, draw: np.random.Generator) -> Array:
    """Returns bootstrap samples of the log losses, [draw, run].

    They are predictions plus residuals of other runs. The residuals are widened to compensate for
    the degrees of freedom of the fit.
    """
    runs, parameters = len(residual), len(best)
    wide: Array = (residual - residual.mean()) * np.sqrt(runs / (runs - parameters))
    return _predicted(best[None], log_x) + wide[draw.integers(runs, size=(DRAWN, runs))]


def _levenberg_marquardt(at: Array, log_x: Array, log_loss: Array, delta: float) -> Array:
    """Runs Levenberg-Marquardt for every row of `at` [fit, parameter].

    The losses are [fit, run], or [run] for all fits. The Huber loss is a least-squares loss in
    which distant points have less weight.
    """
    damping = np.full(len(at), 1e-2)
    cost = _cost(at, log_x, log_loss, delta)
    for _ in range(ITERATIONS):
        residual = log_loss - _predicted(at, log_x)
        slope = _slope(at, log_x)  # [fit, run, parameter]
        weight = np.minimum(1.0, delta / np.maximum(np.abs(residual), 1e-300))
        weighed = slope * weight[..., None]
        gradient = np.einsum("frp,fr->fp", weighed, residual)
        curve = np.einsum("frp,frq->fpq", weighed, slope)
        scale = np.einsum("fpp->fp", curve)
        scale = scale + 1e-6 * scale.max(1, keepdims=True) + 1e-30  # some parameters hardly matter
        held = curve + np.eye(at.shape[1]) * (damping[:, None] * scale)[..., None]
        step = np.linalg.solve(held, gradient[..., None])[..., 0]
        tried = at + np.clip(step, -1.0, 1.0)
        new = _cost(tried, log_x, log_loss, delta)
        better = new < cost
        settled = np.where(better, cost - new < 1e-9 * cost, damping > 1e6)
        at = np.where(better[:, None], tried, at)
        cost = np.where(better, new, cost)
        damping = np.maximum(np.where(better, damping / 3, damping * 4), 1e-8)
        if settled.all():
            break
    return at


def _terms(at: Array, log_x: Array) -> Array:
    """Returns the logarithms of the summands, the floor last: [fit, run, term + 1]."""
    terms = log_x.shape[1]
    scales, exponents = at[:, None, :terms], at[:, None, terms : 2 * terms]
    floor = np.broadcast_to(at[:, None, -1:], (len(at), len(log_x), 1))
    return np.concatenate([scales - exponents * log_x, floor], -1)


def _predicted(at: Array, log_x: Array) -> Array:
    summed: Array = np.logaddexp.reduce(_terms(at, log_x), -1)
    return summed


def _slope(at: Array, log_x: Array) -> Array:
    """Returns the derivative of the prediction by each parameter.

    A summand counts by its share of the sum.
    """
    each = _terms(at, log_x)
    share = np.exp(each - np.logaddexp.reduce(each, -1, keepdims=True))
    powers, floor = share[..., :-1], share[..., -1:]
    return np.concatenate([powers, -powers * log_x, floor], -1)


def _cost(at: Array, log_x: Array, log_loss: Array, delta: float) -> Array:
    far = np.abs(log_loss - _predicted(at, log_x))
    summed: Array = np.where(far <= delta, far**2 / 2, delta * (far - delta / 2)).sum(-1)
    return summed


def _natural(at: Array, middle: Array) -> Array:
    """Converts log scales at the center to scales at x = 1, and the log floor to the floor."""
    terms = len(middle)
    exponents = at[:, terms : 2 * terms]
    with np.errstate(over="ignore"):
        scales = np.exp(at[:, :terms] + exponents * middle)
    return np.concatenate([scales, exponents, np.exp(at[:, -1:])], -1)


def _law(natural: Array) -> Law:
    *powers, floor = map(float, natural)
    terms = len(powers) // 2
    return Law(tuple(powers[:terms]), tuple(powers[terms:]), floor)
