"""The optimizers by name, and their state by parameter name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError
from glassformer.train.optimizers.adafactor import Adafactor
from glassformer.train.optimizers.adamw import make_adamw
from glassformer.train.optimizers.muon import Muon
from glassformer.train.parameter_groups import (
    GroupSettings,
    body_matrices,
    freeze_base,
    parameter_groups,
    row_blocks,
)

Groups = list[dict[str, Any]]
EPS, ADAFACTOR_EPS = 1e-8, 1e-15  # the defaults of the papers


class OptimizerSettings(GroupSettings, Protocol):
    """The settings of a recipe's [train] table that are read here."""

    @property
    def optimizer(self) -> str: ...
    @property
    def betas(self) -> Sequence[float]: ...
    @property
    def eps(self) -> float | None: ...
    @property
    def momentum(self) -> float: ...
    @property
    def freeze_base(self) -> bool: ...


def make_optimizer(task: nn.Module, settings: OptimizerSettings) -> torch.optim.Optimizer:
    """Returns an optimizer of the parameters that are not frozen.

    All of its state exists from the start, as tensors, so that checkpoints have the same form at
    every step. The task must be sharded and moved to its device before.
    """
    make = OPTIMIZERS.get(settings.optimizer)
    if make is None:
        near = get_close_matches(settings.optimizer, OPTIMIZERS, 1) or ["adamw"]
        raise ConfigError(
            f"There is no optimizer {settings.optimizer!r}; did you mean {near[0]!r}? "
            f"There are: {', '.join(OPTIMIZERS)}."
        )
    if settings.freeze_base:
        freeze_base(task)
    return make(task, parameter_groups(task, settings), settings)


def state_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Returns the optimizer state by names such as `net.decoder.blocks.0.ffn.up.weight.exp_avg`.

    These are the live tensors; loading into them in place restores the state.
    """
    return {
        f"{name}.{key}": value
        for group in optimizer.param_groups
        for name, parameter in zip(group["param_names"], group["params"], strict=True)
        for key, value in optimizer.state[parameter].items()
    }


def adamw(task: nn.Module, groups: Groups, settings: OptimizerSettings) -> torch.optim.Optimizer:
    return make_adamw(groups, _pair(settings), settings.eps or EPS)


def adafactor(
    task: nn.Module, groups: Groups, settings: OptimizerSettings
) -> torch.optim.Optimizer:
    return Adafactor(groups, row_blocks(task), settings.eps or ADAFACTOR_EPS)


def muon(task: nn.Module, groups: Groups, settings: OptimizerSettings) -> torch.optim.Optimizer:
    parts = body_matrices(task)
    return Muon(groups, parts, settings.momentum, _pair(settings), settings.eps or EPS)


def sgd(task: nn.Module, groups: Groups, settings: OptimizerSettings) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(groups, momentum=settings.momentum)
    if settings.momentum:
        for group in optimizer.param_groups:
            for weight in group["params"]:
                optimizer.state[weight] = {"momentum_buffer": torch.zeros_like(weight)}
    return optimizer


def _pair(settings: OptimizerSettings) -> tuple[float, float]:
    if len(settings.betas) != 2 or not all(0 <= beta < 1 for beta in settings.betas):
        raise ConfigError(
            f"betas are two numbers from 0 to below 1, such as [0.9, 0.95], not "
            f"{list(settings.betas)}."
        )
    return settings.betas[0], settings.betas[1]


Make = Callable[[nn.Module, Groups, OptimizerSettings], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "adamw": adamw,
    "adafactor": adafactor,
    "muon": muon,
    "sgd": sgd,
}
