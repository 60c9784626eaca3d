"""The table of a model's parameters, their value distributions and ties."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.core import Transformer
from glassformer.errors import ConfigError
from glassformer.inside.displayable import Displayable
from glassformer.parameter_table import parts_of

BINS = 40
MOST = 1 << 20  # values that a histogram samples, evenly spaced


@dataclass(frozen=True)
class Histogram:
    low: float
    high: float
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Parameter:
    """A tensor, or a group of tensors (`shape` is None) with their total count."""

    name: str
    depth: int
    shape: tuple[int, ...] | None
    count: int  # parameters not counted in an earlier row
    dtype: str | None = None
    tied_to: str | None = None
    fixed: bool = False  # computed, not learned


@dataclass(frozen=True)
class Distribution:
    """The distribution of a tensor's values; `sampled` tells that only a part was used."""

    mean: float
    std: float
    low: float
    high: float
    zeros: float  # fraction of exact zeros
    histogram: Histogram
    sampled: bool


class Parameters(list[Parameter], Displayable):
    def _repr_html_(self) -> str:
        from glassformer.inside.show.pictures import parameters_html

        return parameters_html(self)

    @property
    def heading(self) -> str:
        return "Parameters"


def parameters(model: Transformer) -> Parameters:
    """Returns the rows of `glassformer inspect`, from the top of the module tree."""
    tensors = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers()),
    }
    return Parameters(
        Parameter(
            part.name,
            part.depth,
            part.shape,
            part.count,
            str(tensors[part.name].dtype).removeprefix("torch.") if part.name in tensors else None,
            part.tied_to,
            part.fixed,
        )
        for part in parts_of(model)
    )


@torch.no_grad()
def distribution(tensor: Tensor, bins: int = BINS) -> Distribution:
    """Computes the distribution of a tensor's values."""
    flat = tensor.detach().flatten()
    step = max(1, len(flat) // MOST)
    some = flat[::step].float()
    low, high = (float(x) for x in some.aminmax()) if len(some) else (0.0, 0.0)
    edge = high if high > low else low + 1.0
    counts = torch.histc(some.cpu(), bins, low, edge).long().tolist()
    return Distribution(
        mean=float(some.mean()) if len(some) else 0.0,
        std=float(some.std(correction=0)) if len(some) else 0.0,
        low=low,
        high=high,
        zeros=float((some == 0).float().mean()) if len(some) else 0.0,
        histogram=Histogram(low, edge, tuple(counts)),
        sampled=step > 1,
    )


def distribution_of(model: Transformer, name: str, bins: int = BINS) -> Distribution:
    """Computes the distribution of a tensor given by its name in the table."""
    tensors = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers()),
    }
    if name not in tensors:
        raise ConfigError(f"The model has no tensor {name!r}; see the table of parameters.")
    return distribution(tensors[name], bins)
