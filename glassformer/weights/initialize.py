"""Initial parameter values of a new model.

Each tensor is drawn from a generator seeded with the seed and the tensor's name.
"""

from __future__ import annotations

import math
import zlib
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from glassformer.core.attention.self_attention import CoreAttention
from glassformer.core.audio_image_embedding import PatchEmbedding
from glassformer.core.embedding import Embedding, PositionTable, sinusoids
from glassformer.core.linear import EmbeddingTable, Linear
from glassformer.core.norm import RMSNorm
from glassformer.core.positions.deberta import DisentangledPosition
from glassformer.core.positions.shaw import ShawPosition
from glassformer.core.positions.t5_bias import T5Bias
from glassformer.core.positions.transformer_xl import RelativePosition
from glassformer.core.transformer import Transformer

DRAWN = (
    T5Bias
    | ShawPosition
    | DisentangledPosition
    | RelativePosition
    | CoreAttention
    | Embedding
    | PatchEmbedding
    | nn.Conv2d
)


@runtime_checkable
class Uniform(Protocol):
    """A module that defines the bound of the uniform distribution of its initial values."""

    first_reach: float


@torch.no_grad()
def initial_value(model: Transformer, name: str, seed: int) -> Tensor:
    """Computes the initial value of one tensor.

    Args:
        model: The model, which may be on any device, including meta.
        name: The tensor's name in the model's state dict.
        seed: Together with `name`, determines the random values.

    Returns:
        The initial values on the CPU; random ones are float32.
    """
    owner, _, leaf = name.rpartition(".")
    module = model.get_submodule(owner)
    tensor: Tensor = getattr(module, leaf)
    if isinstance(module, PositionTable) and module.spec.layout != "learned":
        return sinusoids(module.spec, *tensor.shape)
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
    values = torch.empty(tensor.shape)
    if isinstance(module, Uniform):
        return values.uniform_(-module.first_reach, module.first_reach, generator=generator)
    deviation = _deviation(model, owner, module, leaf)
    if deviation is None:
        return torch.full(tensor.shape, _constant(module, leaf), dtype=tensor.dtype)
    kind = model.spec.init.kind
    drawn = kind == "uniform" or (kind == "xavier" and isinstance(module, Linear | nn.Conv1d))
    if drawn:
        reach = deviation * math.sqrt(3)
        return values.uniform_(-reach, reach, generator=generator)
    return values.normal_(0.0, deviation, generator=generator)


def _constant(module: nn.Module, leaf: str) -> float:
    if leaf not in ("weight", "running_var"):
        return 0.0
    return 0.0 if isinstance(module, RMSNorm) and module.unit_offset else 1.0


def _deviation(model: Transformer, owner: str, module: nn.Module, leaf: str) -> float | None:
    """Returns the standard deviation to draw with, or None if the initial value is constant."""
    rule = model.spec.init
    if isinstance(module, Linear | nn.Conv1d) and leaf == "weight":
        rows, columns = module.weight.flatten(1).shape
        rows *= module.weight[0, 0].numel()  # a convolution's kernel
        parts = len(module.parts) if isinstance(module, Linear) else 1
        by_kind: dict[str, float] = {
            "normal": rule.std,
            "fan_in": rule.std / math.sqrt(columns),
            "xavier": rule.std * math.sqrt(2 / (columns + rows / parts)),
            "uniform": rule.std / math.sqrt(3),
        }
        layers = len(model.spec.last_stack.order)
        writes = rule.shrink_residual and owner.endswith((".attention.out", ".ffn.down"))
        return by_kind[rule.kind] / (math.sqrt(2 * layers) if writes else 1.0)
    if isinstance(module, EmbeddingTable | PositionTable):
        width = module.weight.shape[1]
        narrow = {"xavier": math.sqrt(width), "uniform": math.sqrt(3)}
        return rule.std / narrow.get(rule.kind, 1.0)
    if isinstance(module, DRAWN) and leaf not in ("bias", "blank"):
        return rule.std if rule.kind == "normal" else 0.02
    return None
