"""Activation functions, by the names in `spec.Activation`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.spec import Activation


def squared_relu(x: Tensor) -> Tensor:
    return F.relu(x).square()


def sigmoid_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


def identity(x: Tensor) -> Tensor:
    return x


def gelu_(x: Tensor) -> Tensor:
    return torch.ops.aten.gelu_(x)  # type: ignore[no-any-return]


def gelu_tanh_(x: Tensor) -> Tensor:
    return torch.ops.aten.gelu_(x, approximate="tanh")  # type: ignore[no-any-return]


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu2": squared_relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "gelu_sigmoid": sigmoid_gelu,
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "mish": F.mish,
    "linear": identity,
}

# Overwriting a wide tensor that nothing else refers to saves an allocation. These are functions of
# this module, because a model is pickled with them, and torch's own operators cannot be.
IN_PLACE: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "gelu": gelu_,
    "gelu_tanh": gelu_tanh_,
    "silu": partial(F.silu, inplace=True),
}
