"""torch's SGD with momentum."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from glassformer.train.coerce import number
from glassformer.train.optimizers.registry import Groups, OptimizerOptions, optimizer


@optimizer("sgd")
@dataclass(frozen=True, kw_only=True)
class SGDOptions(OptimizerOptions):
    """The options of SGD."""

    momentum: float = number(0.95, least=0.0, below=1.0)

    def build(self, task: nn.Module, groups: Groups) -> torch.optim.Optimizer:
        made = torch.optim.SGD(groups, momentum=self.momentum)
        if self.momentum:
            for group in made.param_groups:
                for weight in group["params"]:
                    made.state[weight] = {"momentum_buffer": torch.zeros_like(weight)}
        return made
