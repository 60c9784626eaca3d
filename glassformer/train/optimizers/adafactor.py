"""Adafactor (Shazeer and Stern, 2018), as T5 was trained with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.train.optimizers.shards import shared_like, whole

DECAY = 0.8  # beta2 at step t is 1 - t^-0.8
LEAST = 1e-3  # weights count as at least so large
CLIP = 1.0  # an update's root mean square is at most so large


class Adafactor(torch.optim.Optimizer):
    """No first moment, and of the second only the means of rows and columns; steps are relative to
    the size of what they change.

    torch's own clamps where the paper adds 1e-30, and has a schedule built in. The rule is applied
    to each of the matrices (or biases) that `parts` says are joined in one, as if they stood alone.
    Gradients well below `eps` count as none: a weight whose true gradient is zero, such as a bias
    of keys, would otherwise take whole steps of nothing but rounding.
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
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
        step = torch.zeros(())  # read by the host at every step
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
        """What is taken off at a rate of 1."""
        state = self.state[weight]
        state["step"] += 1
        new = float(state["step"]) ** -DECAY  # the share of the new in the means
        assert weight.grad is not None
        now, gradient = whole(weight).float(), whole(weight.grad).float()
        square = gradient.square() + self.eps**2
        if weight.ndim < 2:
            state["square"].lerp_(square, new)
            change = gradient * state["square"].rsqrt()
            heights = list(self.parts.get(weight, weight.shape))
            if not heights:  # one number
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
    """Clipped, and in proportion to the weight."""
    return change * (_rms(weight).clamp(min=LEAST) / (_rms(change) / CLIP).clamp(min=1.0))


def _rms(x: Tensor) -> Tensor:
    return x.square().mean().sqrt()
