"""Definitions shared by several specs: activations, norms and validation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from glassformer.errors import ConfigError

Activation = Literal[
    "relu",
    "relu2",
    "gelu",
    "gelu_tanh",
    "gelu_sigmoid",
    "silu",
    "tanh",
    "sigmoid",
    "mish",
    "linear",
]


def require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


def require_sizes(spec: object, *names: str) -> None:
    """Raises an error unless these fields are at least 1, or None."""
    for name in names:
        value = getattr(spec, name)
        require(
            value is None or value >= 1,
            f"{name} of a {type(spec).__name__} is {value}; it must be at least 1.",
        )


def require_dropout(spec: object, *names: str) -> None:
    """Raises an error unless these fields are probabilities below 1."""
    for name in names:
        value = getattr(spec, name)
        require(
            0 <= value < 1,
            f"{name} of a {type(spec).__name__} is {value}; it must be at least 0 and less than 1.",
        )


@dataclass(frozen=True, kw_only=True)
class NormSpec:
    """LayerNorm, RMSNorm (no centering), or BatchNorm."""

    kind: Literal["layer", "rms", "batch"] = "layer"
    eps: float = 1e-5
    bias: bool = True
    unit_offset: bool = False  # the learned scale is stored as its difference from one

    def __post_init__(self) -> None:
        require(
            math.isfinite(self.eps) and self.eps >= 0,
            f"A norm's eps is {self.eps}; it must be a finite number of at least 0.",
        )
