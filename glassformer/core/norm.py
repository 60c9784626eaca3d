"""Normalization layers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.spec import NormSpec


class LayerNorm(nn.Module):
    """(x - mean) / standard deviation over the width, then a learned scale and shift."""

    def __init__(self, width: int, spec: NormSpec) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if spec.bias else None
        self.eps = spec.eps

    def forward(self, x: Tensor) -> Tensor:
        if not _mixed(x):
            return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
        weight, bias = (p if p is None else p.to(x.dtype) for p in (self.weight, self.bias))
        with torch.autocast(x.device.type, enabled=False):
            return F.layer_norm(x, self.weight.shape, weight, bias, self.eps)


class RMSNorm(nn.Module):
    """x / root mean square over the width, then a learned scale; computed in float32."""

    def __init__(self, width: int, spec: NormSpec) -> None:
        super().__init__()
        one = 0.0 if spec.unit_offset else 1.0
        self.weight = nn.Parameter(torch.full((width,), one))
        self.eps = spec.eps
        self.unit_offset = spec.unit_offset

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float32:
            weight = self.weight + 1.0 if self.unit_offset else self.weight
            return F.rms_norm(x, self.weight.shape, weight, self.eps)
        if _mixed(x) and not self.unit_offset:
            with torch.autocast(x.device.type, enabled=False):
                return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        if self.unit_offset:  # bfloat16 cannot represent one plus a small difference
            return (wide * (self.weight.float() + 1.0)).to(x.dtype)
        return self.weight * wide.to(x.dtype)


class BatchNorm(nn.Module):
    """Normalizes each dimension over batch and positions; for comparison with the other norms."""

    def __init__(self, width: int, spec: NormSpec) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width, eps=spec.eps)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x.flatten(0, -2))
        return out.view_as(x)


def _mixed(x: Tensor) -> bool:
    """Whether autocast would norm a half-precision tensor in float32, and return float32.

    The norm kernels accumulate in float32 anyway.
    """
    return x.dtype != torch.float32 and torch.is_autocast_enabled(x.device.type)


KINDS = {"layer": LayerNorm, "rms": RMSNorm, "batch": BatchNorm}


def make_norm(width: int, spec: NormSpec) -> nn.Module:
    return KINDS[spec.kind](width, spec)
