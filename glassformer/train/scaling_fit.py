"""A sum of powers and a constant, fitted to measured losses.

L(x) = sum_k A_k x_k^-b_k + E. With one x it is the law of Henighan et al. (2020), with x = (N, D)
that of Hoffmann et al. (2022, 3.3). As there, the logarithms are fitted, by the Huber loss, from
many starts; here by Levenberg and Marquardt's method, all fits at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DELTA = 1e-3  # of the Huber loss, on log L: Hoffmann's
EFFICIENT = 1.345  # times the noise, where that is more: Huber's own choice
ITERATIONS = 200
EXPONENTS = (0.05, 0.15, 0.4, 1.0)  # where fits start
FLOORS = (0.3, 0.8, 0.97)  # likewise, as shares of the lowest loss
DRAWN = 400  # resamplings
SHARE = 95.0  # percent of them that the intervals hold


@dataclass(frozen=True)
class Law:
    """`scales` A_k and `exponents` b_k of each x, `floor` E."""

    scales: tuple[float, ...]
    exponents: tuple[float, ...]
    floor: float

    def __call__(self, *x: float) -> float:
        powers = zip(self.scales, self.exponents, x, strict=True)
        return self.floor + sum(float(scale * at**-exponent) for scale, exponent, at in powers)


@dataclass(frozen=True)
class LawFit:
    """`low` and `high` hold the middle 95% of what resampled residuals lead to; `error` is the root
    of the mean square of log L's."""

    law: Law
    low: Law
    high: Law
    error: float


def fit(x: Array, loss: Array, *, seed: int = 0) -> LawFit:
    """Of losses [run] at positive x [run, term], of which there are more than 2 terms + 1."""
    log_x, log_loss = np.log(x), np.log(loss)
    middle = log_x.mean(0)  # where the scales are known best, so that they and exponents part
    centered = log_x - middle
    found = _settle(_starts(centered, log_loss), centered, log_loss, DELTA)
    best = found[np.argmin(_cost(found, centered, log_loss, DELTA))]
    noise = 1.4826 * np.median(np.abs(log_loss - _predicted(best[None], centered)[0]))
    delta = max(DELTA, EFFICIENT * noise)
    best = _settle(best[None], centered, log_loss, delta)[0]
    residual = log_loss - _predicted(best[None], centered)[0]
    told = _resampled(best, centered, residual, np.random.default_rng(seed))
    drawn = _settle(np.repeat(best[None], DRAWN, 0), centered, told, delta)
    many = _natural(drawn, middle)
    edges = np.percentile(many, [(100 - SHARE) / 2, (100 + SHARE) / 2], axis=0)
    return LawFit(
        _law(_natural(best[None], middle)[0]),
        _law(edges[0]),
        _law(edges[1]),
        float(np.sqrt(np.mean(residual**2))),
    )


def _starts(log_x: Array, log_loss: Array) -> Array:
    """[start, parameter]: logarithms of scales at the middle, exponents, logarithm of the floor."""
    terms, lowest = log_x.shape[1], np.exp(log_loss.min())
    over = np.exp(np.median(log_loss))
    found = []
    for floor in FLOORS:
        left = max(over - floor * lowest, 1e-3 * over) / terms
        for exponents in product(EXPONENTS, repeat=terms):
            found.append([*[np.log(left)] * terms, *exponents, np.log(floor * lowest)])
    return np.array(found)


def _resampled(best: Array, log_x: Array, residual: Array, draw: np.random.Generator) -> Array:
    """What the law says with residuals of other runs, [draw, run]. They are widened by what the fit
    itself has taken from them."""
    runs, parameters = len(residual), len(best)
    wide: Array = (residual - residual.mean()) * np.sqrt(runs / (runs - parameters))
    return _predicted(best[None], log_x) + wide[draw.integers(runs, size=(DRAWN, runs))]


def _settle(at: Array, log_x: Array, log_loss: Array, delta: float) -> Array:
    """Levenberg-Marquardt for every row of `at` [fit, parameter], each to losses of its own
    [fit, run] or all to the same [run]. The Huber loss is a least square in which far points weigh
    less."""
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
        scale = scale + 1e-6 * scale.max(1, keepdims=True) + 1e-30  # some constants hardly matter
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
    """Logarithms of the summands, the floor's last: [fit, run, term + 1]."""
    terms = log_x.shape[1]
    scales, exponents = at[:, None, :terms], at[:, None, terms : 2 * terms]
    floor = np.broadcast_to(at[:, None, -1:], (len(at), len(log_x), 1))
    return np.concatenate([scales - exponents * log_x, floor], -1)


def _predicted(at: Array, log_x: Array) -> Array:
    summed: Array = np.logaddexp.reduce(_terms(at, log_x), -1)
    return summed


def _slope(at: Array, log_x: Array) -> Array:
    """The prediction by each parameter; a summand's share of the sum is what it counts."""
    each = _terms(at, log_x)
    share = np.exp(each - np.logaddexp.reduce(each, -1, keepdims=True))
    powers, floor = share[..., :-1], share[..., -1:]
    return np.concatenate([powers, -powers * log_x, floor], -1)


def _cost(at: Array, log_x: Array, log_loss: Array, delta: float) -> Array:
    far = np.abs(log_loss - _predicted(at, log_x))
    summed: Array = np.where(far <= delta, far**2 / 2, delta * (far - delta / 2)).sum(-1)
    return summed


def _natural(at: Array, middle: Array) -> Array:
    """Scales at x = 1 and the floor in place of their logarithms at the middle."""
    terms = len(middle)
    exponents = at[:, terms : 2 * terms]
    with np.errstate(over="ignore"):
        scales = np.exp(at[:, :terms] + exponents * middle)
    return np.concatenate([scales, exponents, np.exp(at[:, -1:])], -1)


def _law(natural: Array) -> Law:
    *powers, floor = map(float, natural)
    terms = len(powers) // 2
    return Law(tuple(powers[:terms]), tuple(powers[terms:]), floor)
