"""Learning rate schedules: the factor of the learning rate by step.

They are written here, because torch's schedulers have a state, and a run that resumes at a step has
to know nothing but its number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from difflib import get_close_matches
from typing import Protocol

import torch

from glassformer.errors import ConfigError

Factor = Callable[[int], float]


class ScheduleSettings(Protocol):
    """The settings of a recipe's [train] table that are read here."""

    @property
    def lr_scheduler(self) -> str: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def num_training_steps(self) -> int: ...
    @property
    def num_warmup_steps(self) -> int: ...
    @property
    def min_lr_ratio(self) -> float: ...
    @property
    def cut_fraction(self) -> float: ...
    @property
    def ratio(self) -> float: ...


def schedule(settings: ScheduleSettings, width: int | None = None) -> Factor:
    """Returns the function from a step, counted from 0, to the factor of the learning rate.

    Args:
        settings: The schedule and its parameters.
        width: The model's width, which the "transformer" schedule (Vaswani et al., 2017) needs.
    """
    name = settings.lr_scheduler
    if name not in SCHEDULES:
        near = get_close_matches(name, SCHEDULES, 1, cutoff=0.7)
        hint = f"did you mean {near[0]!r}? There" if near else "there"
        raise ConfigError(
            f"There is no learning rate scheduler {name!r}; {hint} are: {', '.join(SCHEDULES)}."
        )
    _check(settings)
    scale = 1.0
    if name == "transformer":
        if width is None:
            raise ConfigError(
                "The scheduler 'transformer' depends on the model's width; give it, or choose "
                "'inverse-square-root'."
            )
        scale = (width * max(settings.num_warmup_steps, 1)) ** -0.5
    shape = SCHEDULES[name]
    return lambda step: scale * shape(settings, step)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Sets the learning rate of each parameter group to its share of the rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["share"]


def constant(settings: ScheduleSettings, step: int) -> float:
    """Constant after a linear warmup."""
    return _warmup_factor(settings, step)


def linear(settings: ScheduleSettings, step: int) -> float:
    """Linear decay to `min_lr_ratio` after a linear warmup."""
    return _warmup_factor(settings, step) * _above_floor(settings, 1 - _progress(settings, step))


def cosine(settings: ScheduleSettings, step: int) -> float:
    """Half a cosine period (Loshchilov and Hutter, 2016), with nanoGPT's warmup."""
    half = (1 + math.cos(math.pi * _progress(settings, step))) / 2
    return _warmup_factor(settings, step) * _above_floor(settings, half)


def inverse_square_root(settings: ScheduleSettings, step: int) -> float:
    """The schedule of Vaswani et al. (2017), scaled to a peak of 1 at the end of the warmup.

    `transformer` is the same in its original form, width^-0.5 * min(n^-0.5, n * warmup^-1.5) in
    step n counted from 1, which the learning rate multiplies.
    """
    number, warmup = step + 1, max(settings.num_warmup_steps, 1)
    if number <= warmup:
        return number / warmup
    return max(settings.min_lr_ratio, math.sqrt(warmup / number))


def relative_step(settings: ScheduleSettings, step: int) -> float:
    """min(rate, n^-0.5): the schedule of Adafactor, and of T5 with a rate of 0.01."""
    falling = min(1.0, 1 / (math.sqrt(step + 1) * settings.learning_rate))
    return _warmup_factor(settings, step) * max(settings.min_lr_ratio, falling)


def slanted_triangular(settings: ScheduleSettings, step: int) -> float:
    """Linear warmup in the first `cut_fraction` of the steps and linear decay in the others.

    The lowest rate is 1/ratio of the highest (Howard and Ruder, 2018, 3.2).
    """
    cut = math.floor(settings.num_training_steps * settings.cut_fraction)
    if step < cut:
        return _slanted(settings, step / cut)
    falling = 1 - (step - cut) / (settings.num_training_steps - cut)
    return max(settings.min_lr_ratio, _slanted(settings, max(0.0, falling)))


SCHEDULES: dict[str, Callable[[ScheduleSettings, int], float]] = {
    "constant": constant,
    "linear": linear,
    "cosine": cosine,
    "inverse-square-root": inverse_square_root,
    "transformer": inverse_square_root,
    "relative-step": relative_step,
    "slanted-triangular": slanted_triangular,
}


def _slanted(settings: ScheduleSettings, share: float) -> float:
    return (1 + share * (settings.ratio - 1)) / settings.ratio


def _warmup_factor(settings: ScheduleSettings, step: int) -> float:
    return min(1.0, (step + 1) / (settings.num_warmup_steps + 1))


def _progress(settings: ScheduleSettings, step: int) -> float:
    """Returns the fraction of the steps after the warmup that are done."""
    after = (step - settings.num_warmup_steps) / max(
        1, settings.num_training_steps - settings.num_warmup_steps
    )
    return min(1.0, max(0.0, after))


def _above_floor(settings: ScheduleSettings, factor: float) -> float:
    return settings.min_lr_ratio + (1 - settings.min_lr_ratio) * factor


def _check(settings: ScheduleSettings) -> None:
    if settings.num_warmup_steps < 0:
        raise ConfigError(
            f"The number of warmup steps must be at least 0, not {settings.num_warmup_steps}."
        )
    if not 0 <= settings.min_lr_ratio <= 1:
        raise ConfigError(
            f"min_lr_ratio is {settings.min_lr_ratio}; it is a share of the learning rate from 0 "
            "to 1."
        )
    if not 0 <= settings.cut_fraction < 1 or settings.ratio < 1:
        raise ConfigError(
            "A slanted triangle needs a cut_fraction from 0 to below 1 and a ratio of 1 or more, "
            f"not {settings.cut_fraction} and {settings.ratio}."
        )
    if settings.learning_rate <= 0:
        raise ConfigError(f"The learning rate must be above 0, not {settings.learning_rate}.")
