"""Attention for the few queries of a text's branches, all of which see something.

A CPU's fused kernel is made for many queries, and for a handful takes twice as long as two matrix
products.
"""

from __future__ import annotations

import torch
from torch import Tensor


def prefers_matmul(q: Tensor, k: Tensor) -> bool:
    """Whether there are at most 8 float32 queries on a CPU, without grouped heads or gradients."""
    few = q.device.type == "cpu" and q.dtype == torch.float32 and q.shape[2] <= 8
    return few and q.shape[1] == k.shape[1] and not torch.is_grad_enabled()


def matmul_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Computes attention by two products. `mask` is [batch, head, query, key], True if visible."""
    scores = (q @ k.transpose(-1, -2)).mul_(scale)
    if mask is not None:
        scores.masked_fill_(~mask, float("-inf"))
    return scores.softmax(-1) @ v
