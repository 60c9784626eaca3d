"""Reduction of large arrays to display size."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from glassformer.rounding import ceil_div


def downsample(values: Tensor, axis: int, most: int, by: str = "max") -> Tensor:
    """Reduces an axis to at most `most` elements.

    Args:
        values: The array.
        axis: The axis.
        most: The maximum size.
        by: How neighbors are combined: "mean", "max", or anything else for the largest absolute
            value.

    Returns:
        The reduced array.
    """
    size = values.shape[axis]
    if size <= most:
        return values
    group = ceil_div(size, max(most, 1))
    fill = float("nan") if by == "mean" else float("-inf") if by == "max" else 0.0
    last = F.pad(values.movedim(axis, -1), (0, -size % group), value=fill)
    groups = last.view(*last.shape[:-1], -1, group)
    if by == "mean":
        found: Tensor = groups.nanmean(-1)
    elif by == "max":
        found = groups.amax(-1)
    else:
        found = groups.gather(-1, groups.abs().argmax(-1, keepdim=True))[..., 0]
    return found.movedim(-1, axis)


def thumbnail(patterns: Tensor, most: int) -> Tensor:
    """Reduces [..., query, key] to at most `most` of both by the largest weight of every tile."""
    if not patterns.is_contiguous():
        patterns = patterns.contiguous()
    rows, columns = (ceil_div(size, max(most, 1)) for size in patterns.shape[-2:])
    if rows <= 1 and columns <= 1:
        return patterns
    lead = patterns.shape[:-2]
    flat = patterns.reshape(-1, 1, *patterns.shape[-2:])
    pooled = F.max_pool2d(flat.float(), (rows, columns), ceil_mode=True)
    return pooled.view(*lead, *pooled.shape[-2:])
