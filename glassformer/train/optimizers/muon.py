"""Muon (Jordan et al., 2024): momentum with orthogonalized updates.

It is written here, because torch's Muon would orthogonalize joined matrices, such as `qkv`, as one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from glassformer.train.coerce import number
from glassformer.train.optimizers.adamw import AdamWOptions, first_moments
from glassformer.train.optimizers.registry import Groups, optimizer
from glassformer.train.optimizers.shards import full_tensor, shared_like
from glassformer.train.parameter_groups import body_matrices

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # steepest at zero, so that five rounds are enough
ROUNDS = 5
AT_ONCE = 2**26  # number of values that are gathered and orthogonalized together


Parts = Mapping[nn.Parameter, tuple[int, ...]]
Learner = tuple[dict[str, Any], nn.Parameter]  # a parameter and its group


@optimizer("muon")
@dataclass(frozen=True, kw_only=True)
class MuonOptions(AdamWOptions):
    """The options of Muon, and those of AdamW for the parameters that Muon leaves to it."""

    needs_full_matrices: ClassVar[bool] = True

    momentum: float = number(0.95, least=0.0, below=1.0)

    def build(self, task: nn.Module, groups: Groups) -> torch.optim.Optimizer:
        betas = self.betas[0], self.betas[1]
        return Muon(groups, body_matrices(task), self.momentum, betas, self.eps)


class Muon(torch.optim.AdamW):
    """Muon for the matrices in `parts`, AdamW for all other parameters.

    The update is the orthogonalized momentum of the gradient, separately for each of the matrices
    that are concatenated in a weight. Updates have the size of AdamW's (0.2 * sqrt(larger side);
    Liu et al., 2025), so that one learning rate and one weight decay serve both.
    """

    def __init__(
        self,
        groups: Groups,
        parts: Parts,
        momentum: float,
        betas: tuple[float, float],
        eps: float,
    ) -> None:
        split = [half for group in groups for half in _halves(group, parts)]
        super().__init__(split, betas=betas, eps=eps, fused=True)
        self._step_supports_amp_scaling = False  # only AdamW's part supports it
        self.parts = parts
        self.momentum = momentum
        for group in self.param_groups:
            for weight in group["params"]:
                self.state[weight] = (
                    {"momentum_buffer": torch.zeros_like(weight)}
                    if group["orthogonal"]
                    else first_moments(weight)
                )

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Skips AdamW's method, which expects AdamW's state for every parameter."""
        torch.optim.Optimizer.__setstate__(self, state)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        every = self.param_groups
        self.param_groups = [group for group in every if not group["orthogonal"]]
        try:
            super().step()
        finally:
            self.param_groups = every
        pairs = (
            (group, weight)
            for group in every
            if group["orthogonal"]
            for weight in group["params"]
            if weight.grad is not None
        )
        for some in _batches(pairs):
            self._update(some)

    def _update(self, pairs: list[Learner]) -> None:
        matrices: list[Tensor] = []
        for _, weight in pairs:
            gradient, slow = weight.grad, self.state[weight]["momentum_buffer"]
            assert gradient is not None
            slow.lerp_(gradient, 1 - self.momentum)
            ahead = full_tensor(gradient.lerp(slow, self.momentum))  # Nesterov momentum
            matrices.extend(torch.split(ahead, list(self.parts[weight])))
        turned = iter(orthogonalized(matrices))
        for group, weight in pairs:
            pieces = [next(turned) for _ in self.parts[weight]]
            change = torch.cat([0.2 * math.sqrt(max(x.shape)) * x for x in pieces])
            weight.mul_(1 - group["lr"] * group["weight_decay"])
            weight.sub_(shared_like(change.to(weight.dtype), weight), alpha=group["lr"])


def orthogonalized(matrices: list[Tensor]) -> list[Tensor]:
    """Returns for each matrix U S V^T approximately U V^T.

    The singular values lie between 0.7 and 1.2 afterward. Matrices of the same shape, up to
    transposition, are computed together.
    """
    alike: dict[tuple[int, int], list[int]] = {}
    for index, matrix in enumerate(matrices):
        alike.setdefault((min(matrix.shape), max(matrix.shape)), []).append(index)
    turned: dict[int, Tensor] = {}
    for indices in alike.values():
        stack = torch.stack([_as_wide(matrices[index]) for index in indices])
        turned |= zip(indices, newton_schulz(stack), strict=True)
    return [
        x.mT if (x := turned[index]).shape != matrix.shape else x
        for index, matrix in enumerate(matrices)
    ]


def newton_schulz(x: Tensor) -> Tensor:
    """Iterates x <- a x + (b x x^T + c (x x^T)^2) x on x of [matrix, row, column].

    On a GPU it runs in bfloat16, which is precise enough for this purpose.
    """
    a, b, c = COEFFICIENTS
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    x = x.bfloat16() if x.is_cuda else x
    for _ in range(ROUNDS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def _as_wide(matrix: Tensor) -> Tensor:
    return matrix.mT if matrix.shape[0] > matrix.shape[1] else matrix


def _halves(group: dict[str, Any], parts: Parts) -> Iterator[dict[str, Any]]:
    for orthogonal in (True, False):
        chosen = [named for named in group["params"] if (named[1] in parts) == orthogonal]
        if chosen:
            yield {**group, "params": chosen, "orthogonal": orthogonal}


def _batches(pairs: Iterable[Learner]) -> Iterator[list[Learner]]:
    batch: list[Learner] = []
    size = 0
    for group, weight in pairs:
        if batch and size + weight.numel() > AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append((group, weight))
        size += weight.numel()
    if batch:
        yield batch
