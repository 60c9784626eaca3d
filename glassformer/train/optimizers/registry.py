"""The registry of optimizers by their names in a recipe, and their state by parameter name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError
from glassformer.registry import Registry
from glassformer.train.coerce import fill, unknown
from glassformer.train.parameter_groups import GroupSettings, freeze_base, parameter_groups

Groups = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class OptimizerOptions(ABC):
    """Base class of an optimizer's options, which are keys of a recipe's [train] table."""

    needs_full_matrices: ClassVar[bool] = False  # True: matrices cannot be split over processes

    @abstractmethod
    def build(self, task: nn.Module, groups: Groups) -> torch.optim.Optimizer:
        """Returns the optimizer.

        All of its state must exist from the start, as tensors, so that checkpoints have the same
        form at every step.

        Args:
            task: The module to train.
            groups: Its trainable parameters by name, with learning rate and weight decay.
        """


Kind = TypeVar("Kind", bound=type[OptimizerOptions])
OPTIMIZERS: Registry[type[OptimizerOptions]] = Registry("optimizer", __package__)


def optimizer(name: str) -> Callable[[Kind], Kind]:
    """Returns a decorator that registers the options of an optimizer under its name."""
    return OPTIMIZERS.decorator(name)


class OptimizerSettings(GroupSettings, Protocol):
    """The settings of a recipe's [train] table that are read here."""

    @property
    def optimizer(self) -> str: ...
    @property
    def options(self) -> Mapping[str, Any]: ...
    @property
    def freeze_base(self) -> bool: ...


def make_optimizer(task: nn.Module, settings: OptimizerSettings) -> torch.optim.Optimizer:
    """Returns an optimizer of the parameters that are not frozen.

    The task must be sharded and moved to its device before.

    Args:
        task: The modules whose parameters are trained.
        settings: The name and the options of the optimizer, and the groups of parameters.
    """
    options = optimizer_options(settings.optimizer, settings.options)
    if settings.freeze_base:
        freeze_base(task)
    return options.build(task, parameter_groups(task, settings))


def optimizer_options(
    name: str, given: Mapping[str, Any], *, table_keys: Sequence[str] = ()
) -> OptimizerOptions:
    """Returns the options of an optimizer, with defaults for those that are not given.

    Args:
        name: The optimizer.
        given: Options by name; an unknown one is an error.
        table_keys: The other keys of the recipe's table, for error messages.
    """
    kind = OPTIMIZERS.find(name)
    own = option_names(kind)
    for key in given:
        if key in own:
            continue
        others = [o for o, other in OPTIMIZERS.all().items() if key in option_names(other)]
        if others:
            raise ConfigError(
                f"train.{key} is an option of the optimizer {' or '.join(others)}, and "
                f"train.optimizer is {name!r}, whose options are: {', '.join(own) or 'none'}."
            )
        raise unknown("The table [train] of the recipe has no key", key, [*table_keys, *own])
    return fill(kind, "train", given)


def option_names(kind: type[OptimizerOptions]) -> list[str]:
    return [each.name for each in fields(kind)]


def state_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Returns the optimizer state by names such as `net.decoder.blocks.0.ffn.up.weight.exp_avg`.

    These are the live tensors; loading into them in place restores the state.

    Args:
        optimizer: The optimizer.
    """
    return {
        f"{name}.{key}": value
        for group in optimizer.param_groups
        for name, parameter in zip(group["param_names"], group["params"], strict=True)
        for key, value in optimizer.state[parameter].items()
    }
