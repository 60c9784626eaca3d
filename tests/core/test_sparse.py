"""Sparse attention, compared with the dense mask; its cost is linear."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.core import ActivationCapture
from glassformer.core.attention.mask import self_attention_mask
from glassformer.core.attention.self_attention import CoreAttention
from glassformer.core.attention.sparse import prefers_sparse, sparse_attention
from glassformer.core.pass_context import PassContext
from glassformer.spec import AttentionPattern, AttentionSpec, BlockSparsePattern

PATTERNS = [
    AttentionPattern(left=5, right=0),
    AttentionPattern(left=9, right=4),
    AttentionPattern(left=0, right=30),
    AttentionPattern(left=150, right=10),
    AttentionPattern(left=12, right=12, dilation=3),
    AttentionPattern(left=40, right=0, dilation=7),
    BlockSparsePattern(block_size=4, num_random_blocks=1),
    BlockSparsePattern(block_size=1, num_random_blocks=2),
    BlockSparsePattern(block_size=16, num_random_blocks=0),
    BlockSparsePattern(block_size=7, num_random_blocks=3),
]
LENGTHS = {
    "none": None,
    "right": (400, 333, 7, 1),
    "left": (320, 400, 30, 101),
    "both": (390, 200, 5, 0),
}


def real_tokens(side: str, length: int) -> torch.Tensor | None:
    if side == "none":
        return None
    slots, counts = torch.arange(length), torch.tensor(LENGTHS[side])[:, None]
    start = {"right": 0, "left": length - counts, "both": (length - counts) // 2}[side]
    return (slots >= start) & (slots < start + counts)


def context(side: str, given: str, length: int = 400) -> PassContext:
    slots = torch.arange(length)
    real = real_tokens(side, length)
    ctx = PassContext("encoder", slots, slots, slots[None], key_mask=real)
    generator = torch.Generator().manual_seed(3)
    if "documents" in given:
        ctx.document_ids = (slots[None] + torch.tensor([[0], [50], [9], [200]])) // 90
    if "global" in given:
        flags = torch.rand(4, length, generator=generator) < torch.tensor(
            [[0.02], [0.01], [0], [0.3]]
        )
        ctx.global_attention_mask = flags if real is None else flags & real
    return ctx


def projected(seed: int, heads: int, length: int = 400) -> torch.Tensor:
    return torch.randn(4, heads, length, 8, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("side", LENGTHS)
@pytest.mark.parametrize("given", ["nothing", "documents", "global", "global and documents"])
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_as_the_dense_mask(pattern, given, side):
    if isinstance(pattern, BlockSparsePattern) and given != "nothing":
        return  # left to the dense mask
    ctx = context(side, given)
    inputs = [projected(seed, heads) for seed, heads in enumerate((4, 2, 2, 4, 2, 2))]
    plain = tuple(inputs[:3])
    wide = tuple(inputs[3:]) if given == "global" else None  # projections of their own
    attend = CoreAttention(AttentionSpec(heads=4, kv_heads=2, head_dim=8))
    ways = (
        lambda: sparse_attention(plain, wide or plain, ctx, pattern, scale=attend.scale),
        lambda: attend(*plain, ctx, pattern, global_qkv=wide),
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


@pytest.mark.parametrize("side", LENGTHS)
def test_random_blocks_as_the_dense_mask(side):
    """While training: drawn once a layer and pass, the same for both ways of computing."""
    for pattern in (
        BlockSparsePattern(block_size=4, num_random_blocks=3),
        BlockSparsePattern(block_size=7, num_random_blocks=1),
    ):
        ctx = context(side, "nothing")
        ctx.training, ctx.depth, ctx.eager = True, 0, True
        plain = tuple(projected(seed, 4) for seed in range(3))
        attend = CoreAttention(AttentionSpec(heads=4, head_dim=8))
        sparse = sparse_attention(plain, plain, ctx, pattern, scale=attend.scale)
        dense = attend(*plain, ctx, pattern)
        real = torch.ones(4, 400, dtype=torch.bool) if ctx.key_mask is None else ctx.key_mask
        assert torch.allclose(sparse.transpose(1, 2)[real], dense.transpose(1, 2)[real], atol=1e-5)
        first = self_attention_mask(ctx, pattern).mask
        ctx.depth = 1
        assert not torch.equal(
            self_attention_mask(ctx, pattern).mask, first
        )  # every layer has its own


def test_dropout_leaves_the_mean_as_it_is():
    ctx, ones = context("none", "nothing"), torch.ones(4, 4, 400, 8)
    pattern = AttentionPattern(left=60, right=60)
    z = sparse_attention((ones, ones, ones), (ones,) * 3, ctx, pattern, scale=1.0, dropout=0.5)
    assert z.std() > 0.05 and abs(float(z.mean()) - 1) < 0.01


LINEAR = [
    AttentionPattern(left=100, right=0),
    AttentionPattern(left=64, right=64),
    AttentionPattern(left=256, right=0, dilation=4),
    BlockSparsePattern(block_size=16, num_random_blocks=2),
]


class Largest(TorchDispatchMode):
    """Remembers the size of the largest tensor that anything made."""

    def __init__(self):
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for one in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(one, torch.Tensor):
                self.size = max(self.size, one.untyped_storage().nbytes())
        return out


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("pattern", LINEAR, ids=str)
def test_memory_grows_with_the_length_not_with_its_square(pattern, own, padded):
    if own and isinstance(pattern, BlockSparsePattern):
        return
    model = tiny.transformer(
        tiny.encoder(
            1, pattern=pattern, attention=replace(tiny.ATTENTION, separate_global_projections=own)
        )
    )
    sizes = []
    for length in (2048, 4096):
        given = {"global_attention_mask": torch.arange(length)[None] < 5} if own else {}
        if padded:
            given["attention_mask"] = torch.arange(length)[None] >= 100
        with torch.no_grad(), Largest() as largest:
            model(tiny.tokens(1, length), **given)
        sizes.append(largest.size)
    assert sizes[1] <= 2.1 * sizes[0]
    assert sizes[1] < 4096 * 4096  # bytes: not even a mask of one per pair


@pytest.mark.parametrize("pattern", LINEAR, ids=str)
def test_looking_at_the_pattern_changes_nothing_and_shows_the_dense_one(pattern):
    model, tokens = tiny.transformer(tiny.encoder(2, pattern=pattern)), tiny.tokens(2, 700)
    mask = torch.arange(700) < torch.tensor([[700], [450]])
    seen = ActivationCapture("*.pattern", "*.z", "*.v")
    with torch.no_grad():
        plain = model(tokens, attention_mask=mask).logits
        assert torch.equal(model(tokens, attention_mask=mask, tap=seen).logits, plain)
        assert torch.allclose(
            model(tokens, attention_mask=mask, attn_implementation="eager").logits[mask],
            plain[mask],
            atol=1e-5,
        )
    shown = seen["encoder.blocks.1.pattern"] @ seen["encoder.blocks.1.v"]
    real = mask[:, None, :, None].expand_as(shown)
    assert torch.allclose(shown[real], seen["encoder.blocks.1.z"][real], atol=1e-5)


@pytest.mark.parametrize("pattern", LINEAR[1:], ids=str)
def test_compiled_in_one_graph(pattern):
    model, tokens = tiny.transformer(tiny.encoder(1, pattern=pattern)), tiny.tokens(2, 700)
    mask = torch.arange(700) < torch.tensor([[700], [450]])
    torch._dynamo.reset()
    with torch.no_grad():
        fast = torch.compile(model, fullgraph=True, backend="eager")(tokens, mask).logits
        assert torch.allclose(
            fast[mask], model(tokens, attention_mask=mask).logits[mask], atol=1e-5
        )


def test_short_texts_prefixes_and_caches_are_left_to_the_dense_mask():
    ctx, q = context("none", "nothing"), projected(0, 4)
    window = AttentionPattern(left=50, right=0)
    assert prefers_sparse(q, q, window, ctx)
    assert not prefers_sparse(q[:, :, :150], q[:, :, :150], window, ctx)
    assert not prefers_sparse(q[:, :, -1:], q, window, ctx)
    assert not prefers_sparse(q, q, AttentionPattern(right=0), ctx)
    assert not prefers_sparse(q, q, BlockSparsePattern(block_size=64), ctx)
    ctx.prefix_length = torch.tensor([3])
    assert not prefers_sparse(q, q, window, ctx)
