"""The position modules by spec class."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from glassformer.core.positions.alibi import AlibiBias
from glassformer.core.positions.deberta import DisentangledPosition
from glassformer.core.positions.rotary import RotaryPosition
from glassformer.core.positions.shaw import ShawPosition
from glassformer.core.positions.t5_bias import T5Bias
from glassformer.core.positions.transformer_xl import RelativePosition
from glassformer.spec import (
    AlibiSpec,
    AttentionSpec,
    DisentangledSpec,
    PositionSpec,
    RelativePositionSpec,
    RotarySpec,
    ShawSpec,
    T5BiasSpec,
)

MODULES: dict[type, Callable[..., nn.Module]] = {
    DisentangledSpec: DisentangledPosition,
    RelativePositionSpec: RelativePosition,
    RotarySpec: RotaryPosition,
    T5BiasSpec: T5Bias,
    AlibiSpec: AlibiBias,
    ShawSpec: ShawPosition,
}


def make_position(spec: PositionSpec, attention: AttentionSpec, width: int) -> nn.Module:
    return MODULES[type(spec)](spec, attention, width)
