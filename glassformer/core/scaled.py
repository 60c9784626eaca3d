"""Room 3, core: PyTorch's fused attention, by kernels that can be trusted."""

from __future__ import annotations

from contextlib import nullcontext

import torch.nn.functional as F
from torch import Tensor
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
    """Not by cuDNN where there is a mask and something learns: its gradients are NaN at some
    lengths (pytorch/pytorch#196678)."""
    learns = bool(dropout) or q.requires_grad
    with sdpa_kernel(SOUND) if mask is not None and q.is_cuda and learns else nullcontext():
        return F.scaled_dot_product_attention(
            q, k, v, mask, dropout, causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
        )
