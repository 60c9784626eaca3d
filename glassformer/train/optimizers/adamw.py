"""torch's AdamW (Loshchilov and Hutter, 2017) with its fused kernel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError
from glassformer.train.coerce import number
from glassformer.train.optimizers.registry import Groups, OptimizerOptions, optimizer


@optimizer("adamw")
@dataclass(frozen=True, kw_only=True)
class AdamWOptions(OptimizerOptions):
    """The options of AdamW."""

    betas: tuple[float, ...] = (0.9, 0.95)
    eps: float = number(1e-8, above=0.0)

    def __post_init__(self) -> None:
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(
                f"betas are two numbers from 0 to below 1, such as [0.9, 0.95], not "
                f"{list(self.betas)}."
            )

    def build(self, task: nn.Module, groups: Groups) -> torch.optim.Optimizer:
        betas = self.betas[0], self.betas[1]
        made = torch.optim.AdamW(groups, betas=betas, eps=self.eps, fused=True)
        for group in made.param_groups:
            for weight in group["params"]:
                made.state[weight] = first_moments(weight)
        return made


def first_moments(weight: Tensor) -> dict[str, Tensor]:
    """Returns the state that torch would create at the first step."""
    return {
        "step": torch.zeros((), device=weight.device),
        "exp_avg": torch.zeros_like(weight),
        "exp_avg_sq": torch.zeros_like(weight),
    }
