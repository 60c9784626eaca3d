"""A Triton kernel that turns rows of logits into losses and, in place, into their gradient.

Imported only where there is a GPU, because only torch's CUDA builds include triton.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _capped(z, softcap):
    """softcap * tanh(z / softcap)"""
    return softcap * (2 * tl.sigmoid(2 * z / softcap) - 1)


@triton.jit
def _cross_entropy_kernel(
    logits,
    targets,
    losses,
    words,
    columns,
    smoothing,
    softcap,
    ignore: tl.constexpr,
    smooth: tl.constexpr,
    capped: tl.constexpr,
    at_once: tl.constexpr,
):
    """One program per row of [column] logits, of which the first `words` count."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * columns
    target = tl.load(targets + row)
    real = target != ignore
    gold = tl.load(logits + target, mask=real, other=0.0).to(tl.float32)  # before it is overwritten
    if capped:
        gold = _capped(gold, softcap)
    peak = -float("inf")
    total = 0.0
    plain = 0.0
    for start in range(0, words, at_once):
        column = start + tl.arange(0, at_once)
        z = tl.load(logits + column, mask=column < words, other=0.0).to(tl.float32)
        if capped:
            z = _capped(z, softcap)
        if smooth:
            plain += tl.sum(z, 0)
        z = tl.where(column < words, z, -float("inf"))
        higher = tl.maximum(peak, tl.max(z, 0))
        total = total * tl.exp(peak - higher) + tl.sum(tl.exp(z - higher), 0)
        peak = higher
    total = peak + tl.log(total)
    loss = total - (1 - smoothing) * gold - smoothing * plain / words
    tl.store(losses + row, tl.where(real, loss, 0.0))
    for start in range(0, columns, at_once):
        column = start + tl.arange(0, at_once)
        z = tl.load(logits + column, mask=column < words, other=0.0).to(tl.float32)
        if capped:
            z = _capped(z, softcap)
        gradient = tl.exp(z - total) - smoothing / words
        gradient = tl.where(column == target, gradient - (1 - smoothing), gradient)
        if capped:
            gradient *= 1 - (z / softcap) * (z / softcap)
        gradient = tl.where(real & (column < words), gradient, 0.0)
        tl.store(logits + column, gradient, mask=column < columns)


def cross_entropy_rows(
    logits: Tensor,
    targets: Tensor,
    losses: Tensor,
    words: int,
    smoothing: float,
    softcap: float,
    ignore: int,
) -> None:
    """Writes the losses of [row, column] logits, and overwrites the logits with their gradient."""
    at_once = min(2048, triton.next_power_of_2(logits.shape[1]))
    _cross_entropy_kernel[(len(logits),)](
        logits,
        targets,
        losses,
        words,
        logits.shape[1],
        smoothing,
        softcap,
        ignore=ignore,
        smooth=smoothing != 0,
        capped=softcap != 0,
        at_once=at_once,
        num_warps=4,
    )
