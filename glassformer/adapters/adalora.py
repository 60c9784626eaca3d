"""Rank allocation of AdaLoRA (Zhang et al., 2023, section 3).

For each number of a triplet (a row of A, its singular value, a column of B), the sensitivity
|w * dL/dw| and its variability are averaged over the steps. Their product, summed over the
triplet, is its importance; the least important triplets are set to zero.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.adapters.adapter import Adapter, active
from glassformer.adapters.low_rank import LowRank
from glassformer.adapters.settings import AdaLoRA
from glassformer.core import Transformer
from glassformer.errors import ConfigError


class Importance(nn.Module):
    """Statistics of one low-rank update between steps; buffers, so that training can be resumed."""

    mask: Tensor

    def __init__(self, part: LowRank) -> None:
        super().__init__()
        assert part.e is not None
        for name, tensor in part.named_parameters():
            self.register_buffer(f"{name}_mean", torch.zeros_like(tensor))
            self.register_buffer(f"{name}_wavering", torch.zeros_like(tensor))
        self.register_buffer("mask", torch.ones(len(part.a), dtype=torch.bool).to(part.a.device))

    @torch.no_grad()
    def update(self, part: LowRank, betas: tuple[float, ...]) -> None:
        """Updates the moving averages with the current gradients."""
        for name, tensor in part.named_parameters():
            if tensor.grad is None:
                continue
            mean, wavering = self.get_buffer(f"{name}_mean"), self.get_buffer(f"{name}_wavering")
            sensitivity = (tensor * tensor.grad).abs()
            mean.mul_(betas[0]).add_(sensitivity, alpha=1 - betas[0])
            wavering.mul_(betas[1]).add_((sensitivity - mean).abs(), alpha=1 - betas[1])

    def scores(self) -> Tensor:
        """Returns the importance of each triplet, [rank]."""
        a, b, e = (
            self.get_buffer(f"{name}_mean") * self.get_buffer(f"{name}_wavering")
            for name in ("a", "b", "e")
        )
        return e[:, 0] + a.mean(1) + b.mean(0)


def watch(adapter: Adapter) -> None:
    """Attaches importance statistics to the low-rank updates of an adapter."""
    for part in adapter.parts.values():
        if isinstance(part, LowRank):
            part.importance = Importance(part)


def budget(settings: AdaLoRA, step: int, begin: int, end: int) -> int:
    """Returns how many triplets to keep after `step` steps.

    The count falls from `begin` to `end` with the cube of the remaining fraction of the schedule.
    """
    steps = _steps(settings)
    if step <= settings.warmup_steps:
        return begin
    if step > steps - settings.final_steps:
        return end
    left = 1 - (step - settings.warmup_steps) / (
        steps - settings.final_steps - settings.warmup_steps
    )
    return int((begin - end) * left**3 + end)


@torch.no_grad()
def after_step(model: Transformer, step: int) -> None:
    """Updates importances and ranks of an active AdaLoRA adapter; does nothing for others.

    To be called after each optimizer step, while the gradients are still available.

    Args:
        model: The model.
        step: The index of the step, counted from 0.
    """
    adapter = active(model)
    if adapter is None or not isinstance(adapter.settings, AdaLoRA):
        return
    settings = adapter.settings
    last = _steps(settings) - settings.final_steps  # ranks stay fixed after this step
    parts = [part for part in adapter.parts.values() if isinstance(part, LowRank)]
    if step > last:
        for part in parts:
            assert part.e is not None
            part.e[~_importance(part).mask] = 0.0
        return
    if step < last:
        for part in parts:
            _importance(part).update(part, settings.betas)
    if (settings.warmup_steps < step and step % settings.allocation_interval == 0) or step == last:
        begin = sum(len(part.a) for part in parts)
        allocate(parts, budget(settings, step, begin, settings.target_rank * len(parts)))


def allocate(parts: list[LowRank], count: int) -> None:
    """Sets all but the `count` most important triplets to zero."""
    scores = [_importance(part).scores() for part in parts]
    every = torch.cat(scores)
    gone = len(every) - count
    limit = torch.kthvalue(every, gone).values if gone else every.min() - 1
    for part, score in zip(parts, scores, strict=True):
        assert part.e is not None
        mask = score > limit
        _importance(part).mask.copy_(mask)
        part.e[~mask] = 0.0


def penalty(model: Transformer) -> Tensor | None:
    """Computes AdaLoRA's orthogonality loss, to be weighted by `settings.orth_reg_weight`.

    Returns:
        The mean over all matrices of the Frobenius norm of P^T P - 1, or None if the active adapter
        is not AdaLoRA.

    Args:
        model: The model.
    """
    adapter = active(model)
    if adapter is None or not isinstance(adapter.settings, AdaLoRA):
        return None
    far = []
    for part in adapter.parts.values():
        assert isinstance(part, LowRank)
        for gram in (part.a @ part.a.T, part.b.T @ part.b):
            far.append(torch.linalg.matrix_norm(gram - torch.eye(len(gram), device=gram.device)))
    return torch.stack(far).mean()


def _importance(part: LowRank) -> Importance:
    importance = part.importance
    assert isinstance(importance, Importance)
    return importance


def _steps(settings: AdaLoRA) -> int:
    if settings.max_steps is None:
        raise ConfigError("AdaLoRA prunes ranks over the steps of a run; set max_steps.")
    return settings.max_steps
