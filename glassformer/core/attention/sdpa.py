"""PyTorch's fused attention, restricted to backends that are correct and need no long setup."""

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
    """Calls PyTorch's fused attention, without cuDNN on a GPU.

    cuDNN takes up to a second to prepare for a new shape, which matters less in compiled code,
    where shapes are few. With a mask its gradients are NaN at some lengths
    (pytorch/pytorch#196678).
    """
    free = not q.is_cuda or (compiler.is_compiling() and mask is None)
    with nullcontext() if free else sdpa_kernel(SOUND):
        return F.scaled_dot_product_attention(
            q, k, v, mask, dropout, causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
        )
