"""What optimizers, groups and schedules are tried on: settings, tasks and gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import glassformer as gf
from glassformer.core import Transformer
from glassformer.families import families, spec_from_config
from glassformer.train.optimizers import OPTIMIZERS


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A recipe's [train], as far as it is read here."""

    optimizer: str = "adamw"
    learning_rate: float = 0.01
    betas: tuple[float, ...] = (0.9, 0.95)
    eps: float | None = None
    momentum: float = 0.9
    weight_decay: float = 0.1
    layerwise_lr_decay: float = 1.0
    gradual_unfreezing_steps: int = 0
    freeze_base: bool = False
    lr_scheduler: str = "cosine"
    num_training_steps: int = 1000
    num_warmup_steps: int = 0
    min_lr_ratio: float = 0.0
    cut_fraction: float = 0.1
    ratio: float = 32.0

    @property
    def options(self) -> dict[str, Any]:
        """Those that the optimizer has."""
        own = {"betas": self.betas, "eps": self.eps, "momentum": self.momentum}
        known = OPTIMIZERS.find(self.optimizer).__dataclass_fields__
        return {k: value for k, value in own.items() if k in known and value is not None}


def task(transformer: nn.Module, **more: nn.Module) -> nn.Module:
    """A model and, as objectives may have them, weights beside it."""
    return nn.ModuleDict({"net": transformer, **more})


def transformer(model_type: str, architecture: str, index: int = 0, **changed: Any) -> Transformer:
    """Of a family's tiny config."""
    config = {"model_type": model_type, **families()[model_type].TINY[index], **changed}
    return gf.create(spec_from_config(config, architecture))


def give_gradients(module: nn.Module, seed: int) -> None:
    """Random ones, of very different sizes, for all that is not frozen."""
    draw = torch.Generator().manual_seed(seed)
    for number, parameter in enumerate(module.parameters()):
        gradient = torch.randn(parameter.shape, generator=draw) * 10.0 ** (number % 5 - 3)
        parameter.grad = gradient if parameter.requires_grad else None
