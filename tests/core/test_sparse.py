"""The blocked computation against the dense mask, which is the definition; and that it stays linear."""

from __future__ import annotations

import pytest
import tiny
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.core import Capture
from glassformer.core.attention import Attend
from glassformer.core.context import Context
from glassformer.core.mask import visible
from glassformer.core.sparse import prefers_sparse, sparse_attention
from glassformer.spec import Attention, Blocks, Pattern

PATTERNS = [
    Pattern(left=5, right=0),
    Pattern(left=9, right=4),
    Pattern(left=0, right=30),
    Pattern(left=150, right=10),
    Pattern(left=12, right=12, dilation=3),
    Pattern(left=40, right=0, dilation=7),
    Blocks(size=4, random=1),
    Blocks(size=1, random=2),
    Blocks(size=16, random=0),
    Blocks(size=7, random=3),
]
LENGTHS = {"none": None, "right": (400, 333, 7, 1), "left": (320, 400, 30, 101), "both": (390, 200, 5, 0)}


def real_tokens(side: str, length: int) -> torch.Tensor | None:
    if side == "none":
        return None
    slots, counts = torch.arange(length), torch.tensor(LENGTHS[side])[:, None]
    start = {"right": 0, "left": length - counts, "both": (length - counts) // 2}[side]
    return (slots >= start) & (slots < start + counts)


def context(side: str, given: str, length: int = 400) -> Context:
    slots = torch.arange(length)
    real = real_tokens(side, length)
    ctx = Context("encoder", slots, slots, slots[None], key_mask=real)
    generator = torch.Generator().manual_seed(3)
    if "documents" in given:
        ctx.documents = (slots[None] + torch.tensor([[0], [50], [9], [200]])) // 90
    if "global" in given:
        flags = torch.rand(4, length, generator=generator) < torch.tensor([[0.02], [0.01], [0], [0.3]])
        ctx.global_tokens = flags if real is None else flags & real
    return ctx


def projected(seed: int, heads: int, length: int = 400) -> torch.Tensor:
    return torch.randn(4, heads, length, 8, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("side", LENGTHS)
@pytest.mark.parametrize("given", ["nothing", "documents", "global", "global and documents"])
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_as_the_dense_mask(pattern, given, side):
    if isinstance(pattern, Blocks) and given != "nothing":
        return  # left to the dense mask
    ctx = context(side, given)
    inputs = [projected(seed, heads) for seed, heads in enumerate((4, 2, 2, 4, 2, 2))]
    plain = tuple(inputs[:3])
    wide = tuple(inputs[3:]) if given == "global" else None  # projections of their own
    attend = Attend(Attention(heads=4, kv_heads=2, head_dim=8))
    ways = (
        lambda: sparse_attention(plain, wide or plain, ctx, pattern, scale=attend.scale),
        lambda: attend(*plain, ctx, lambda: visible(ctx, pattern), wide=wide),
    )
    results = []
    ctx.eager = True
    for way in ways:
        for x in inputs:
            x.grad = None
            x.requires_grad_()
        z = way()
        if ctx.key_mask is not None:
            z = z * ctx.key_mask[:, None, :, None]
        z.square().sum().backward()
        results.append((z.detach(), [None if x.grad is None else x.grad.clone() for x in inputs]))
    (sparse, sparse_grads), (dense, dense_grads) = results
    assert torch.allclose(sparse, dense, atol=1e-5)
    for one, other in zip(sparse_grads, dense_grads, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.allclose(one, other, atol=1e-4)
