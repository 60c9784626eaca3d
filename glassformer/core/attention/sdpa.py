"""PyTorch's fused attention, by kernels that are right and ready."""

from __future__ import annotations

from contextlib import nullcontext

import torch.nn.functional as F
from torch import Tensor, compiler
from torch.nn.attention import SDPBackend, sdpa_kernel

SOUND = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def scaled_attention(
    q: Tensor,  # [batch, head, query, dim]
    k: Tensor,  # [batch, key head, key, dim]
    v: Tensor,
    mask: Tensor | None,
    *,
    scale: float,
    dropout: float = 0.0,
    causal: bool = False,
) -> Tensor:
    """Not by cuDNN, which takes up to a second to get ready for a new shape; compiled, shapes are
    few. Where there is a mask, its gradients are NaN at some lengths (pytorch/pytorch#196678)."""
    free = not q.is_cuda or (compiler.is_compiling() and mask is None)
    with nullcontext() if free else sdpa_kernel(SOUND):
        return F.scaled_dot_product_attention(
            q, k, v, mask, dropout, causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
        )
