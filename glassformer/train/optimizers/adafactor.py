"""Adafactor (Shazeer and Stern, 2018), as T5 was trained with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from glassformer.train.coerce import number
from glassformer.train.optimizers.registry import Groups, OptimizerOptions, optimizer
from glassformer.train.optimizers.shards import full_tensor, shared_like
from glassformer.train.parameter_groups import row_blocks

DECAY = 0.8  # beta2 at step t is 1 - t^-0.8
LEAST = 1e-3  # lower bound of the weights' root mean square
CLIP = 1.0  # upper bound of an update's root mean square


@optimizer("adafactor")
@dataclass(frozen=True, kw_only=True)
class AdafactorOptions(OptimizerOptions):
    """The options of Adafactor."""

    needs_full_matrices: ClassVar[bool] = True

    eps: float = number(1e-15, above=0.0)

    def build(self, task: nn.Module, groups: Groups) -> torch.optim.Optimizer:
        return Adafactor(groups, row_blocks(task), self.eps)


class Adafactor(torch.optim.Optimizer):
    """Adafactor without first moment, with factored second moment and relative step sizes.

    Only the row and column means of the second moment are stored. Steps are relative to the size of
    the weights.

    torch's implementation clamps where the paper adds 1e-30, and has a built-in schedule. Here the
    rule is applied separately to each of the matrices (or biases) that are concatenated in a weight
    according to `parts`. Gradients well below `eps` count as zero: a weight whose true gradient is
    zero, such as a bias of keys, would otherwise take full steps from rounding errors alone.
    """

    def __init__(
        self,
        groups: Groups,
        parts: Mapping[nn.Parameter, tuple[int, ...]],
        eps: float,
    ) -> None:
        super().__init__(groups, {})
        self.parts, self.eps = parts, eps
        for group in self.param_groups:
            for weight in group["params"]:
                self.state[weight] = self._begin(weight)

    def _begin(self, weight: nn.Parameter) -> dict[str, Tensor]:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, device=weight.device)

        *lead, rows, columns = (1, 1, *weight.shape)[-max(2, weight.ndim) :]
        step = torch.zeros(())  # on the CPU, because the host reads it at every step
        if weight.ndim < 2:
            return {"step": step, "square": zeros(*weight.shape)}
        joined = len(self.parts.get(weight, (rows,)))
        return {
            "step": step,
            "row": zeros(*lead, rows),
            "column": zeros(*lead, joined, columns),
        }

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    change = shared_like(self._change(weight), weight)
                    weight.mul_(1 - group["lr"] * group["weight_decay"])
                    weight.sub_(change.to(weight.dtype), alpha=group["lr"])

    def _change(self, weight: nn.Parameter) -> Tensor:
        """Returns the update at a learning rate of 1, to be subtracted."""
        state = self.state[weight]
        state["step"] += 1
        new = float(state["step"]) ** -DECAY  # weight of the new value in the means
        assert weight.grad is not None
        now, gradient = full_tensor(weight).float(), full_tensor(weight.grad).float()
        square = gradient.square() + self.eps**2
        if weight.ndim < 2:
            state["square"].lerp_(square, new)
            change = gradient * state["square"].rsqrt()
            heights = list(self.parts.get(weight, weight.shape))
            if not heights:  # a scalar
                return _sized(change, now)
            pairs = zip(torch.split(change, heights), torch.split(now, heights), strict=True)
            return torch.cat([_sized(*pair) for pair in pairs])
        state["row"].lerp_(square.mean(-1), new)
        changes = []
        start = 0
        for part, height in enumerate(self.parts.get(weight, weight.shape[-2:-1])):
            own = slice(start, start + height)
            row, column = state["row"][..., own], state["column"][..., part, :]
            column.lerp_(square[..., own, :].mean(-2), new)
            likely = row[..., None] * column[..., None, :] / row.mean(-1)[..., None, None]
            change = gradient[..., own, :] * likely.rsqrt()
            changes.append(_sized(change, now[..., own, :]))
            start += height
        return torch.cat(changes, -2)


def _sized(change: Tensor, weight: Tensor) -> Tensor:
    """Clips the update and scales it in proportion to the weight."""
    return change * (_rms(weight).clamp(min=LEAST) / (_rms(change) / CLIP).clamp(min=1.0))


def _rms(x: Tensor) -> Tensor:
    return x.square().mean().sqrt()
