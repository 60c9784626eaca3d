"""torch's AdamW (Loshchilov and Hutter, 2017) with its fused kernel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def make_adamw(
    groups: list[dict[str, Any]], betas: tuple[float, float], eps: float
) -> torch.optim.AdamW:
    """Returns an AdamW optimizer whose state exists from the start."""
    optimizer = torch.optim.AdamW(groups, betas=betas, eps=eps, fused=True)
    for group in optimizer.param_groups:
        for weight in group["params"]:
            optimizer.state[weight] = first_moments(weight)
    return optimizer


def first_moments(weight: Tensor) -> dict[str, Tensor]:
    """Returns the state that torch would create at the first step."""
    return {
        "step": torch.zeros((), device=weight.device),
        "exp_avg": torch.zeros_like(weight),
        "exp_avg_sq": torch.zeros_like(weight),
    }
