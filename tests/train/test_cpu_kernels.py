"""The CPU's own kernels beside plain torch in float64, and beside torch's kernels where they leave
the work to those."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from quick import quick
from torch.utils.checkpoint import checkpoint

from glassformer.native.attention import library
from glassformer.train.cpu_kernels import own_kernels

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def compiler():
    if library() is None:
        pytest.skip("there is no compiler")


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def heads(batch, length, count, key_heads, dim):
    """Queries, keys and values as a model has them: parts of one projection."""
    joined = drawn(batch, length, (count + 2 * key_heads) * dim)
    parts = joined.split([count * dim, key_heads * dim, key_heads * dim], -1)
    return [part.view(batch, length, -1, dim).transpose(1, 2) for part in parts]


def with_gradients(function, *inputs):
    leaves = [x.detach().requires_grad_() for x in inputs]
    out = function(*leaves)
    torch.autograd.backward(out, drawn(*out.shape, seed=1).to(out.dtype))
    return [out, *(leaf.grad for leaf in leaves)]


def both(function, *inputs):
    """With our kernels, and in float64 without."""
    with own_kernels(CPU):
        ours = with_gradients(function, *inputs)
    assert "Backward0" not in type(ours[0].grad_fn).__name__, "torch's kernel was used"
    return ours, with_gradients(function, *(x.double() for x in inputs))


def assert_close(ours, exact):
    for x, y in zip(ours, exact, strict=True):
        torch.testing.assert_close(x.double(), y.double(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("length", "count", "key_heads", "dim"),
    [(64, 4, 4, 32), (31, 6, 2, 48), (33, 4, 1, 16), (97, 2, 2, 64), (130, 3, 3, 80)],
)
def test_attention(length, count, key_heads, dim, causal):
    def attend(q, k, v):
        return F.scaled_dot_product_attention(
            q, k, v, is_causal=causal, scale=0.3, enable_gqa=count != key_heads
        )

    assert_close(*both(attend, *heads(8, length, count, key_heads, dim)))


@pytest.mark.parametrize("sides", [("right",), ("left", "right")])
def test_attention_beside_padding(sides):
    slots, sizes = torch.arange(50), torch.arange(14, 50, 5)[:, None]
    kept = {"right": slots < sizes, "left": slots >= 50 - sizes}
    mask = torch.cat([kept[side] for side in sides])[:, None, None]
    inputs = heads(len(mask), 50, 4, 2, 32)

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, mask, scale=0.3, enable_gqa=True)

    assert_close(*both(attend, *inputs))


def test_attention_to_another_text():
    q, k, v = heads(4, 100, 4, 4, 32)
    assert_close(*both(F.scaled_dot_product_attention, q, k[:, :, :45], v[:, :, :45]))


def test_large_scores_do_not_overflow():
    q, k, v = heads(8, 64, 4, 4, 32)
    ours, exact = both(
        lambda *x: F.scaled_dot_product_attention(*x, is_causal=True, scale=30.0), q, k, v
    )
    torch.testing.assert_close(ours[0].double(), exact[0], atol=1e-3, rtol=1e-3)


def test_nothing_comes_from_the_future():
    q, k, v = heads(8, 64, 4, 4, 32)
    with own_kernels(CPU):
        first = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        k[:, :, 40:], v[:, :, 40:] = 1e4, -1e4
        second = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.equal(first[:, :, :40], second[:, :, :40])
    assert not torch.equal(first, second)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate):
    x = torch.cat((drawn(200, 100) * 4, torch.linspace(-40, 40, 2000).view(20, 100)))
    assert_close(*both(lambda x: F.gelu(x, approximate=approximate), x))


def test_threads_change_nothing():
    q, k, v = heads(5, 70, 3, 3, 32)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            attend = both(lambda *x: F.scaled_dot_product_attention(*x, is_causal=True), q, k, v)
            gelu = both(F.gelu, drawn(100, 333))
            found.append([*attend[0], *gelu[0]])
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(x, y) for x, y in zip(found[0], other, strict=True))


@pytest.mark.parametrize(
    "call",
    [
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(64, 64) > 0),
        lambda q, k, v: F.scaled_dot_product_attention(q[..., :20], k[..., :20], v[..., :20]),
        lambda q, k, v: F.scaled_dot_product_attention(q.double(), k.double(), v.double()),
        lambda q, k, v: F.scaled_dot_product_attention(q[:, :, 1:], k, v, is_causal=True),
        lambda q, k, v: F.gelu(q) * k * v,
    ],
    ids=["mask", "odd", "float64", "short", "layout"],
)
def test_what_they_do_not_know_is_left_to_torch(call):
    inputs = heads(8, 64, 4, 4, 32)
    with own_kernels(CPU):
        ours = with_gradients(call, *inputs)
    theirs = with_gradients(call, *inputs)
    assert all(torch.equal(x, y) for x, y in zip(ours, theirs, strict=True))


def test_autocast_decides():
    q, k, v = heads(8, 64, 4, 4, 32)
    with torch.autocast("cpu", torch.bfloat16), own_kernels(CPU):
        assert F.scaled_dot_product_attention(q, k, v).dtype == torch.bfloat16


def layer(q, k, v):
    z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return F.gelu(z.transpose(1, 2).flatten(2) * 3.0, approximate="tanh")


def test_computed_again():
    inputs = heads(8, 64, 4, 4, 32)
    with own_kernels(CPU):
        plain = with_gradients(layer, *inputs)

    def quick(*inputs):
        with own_kernels(CPU):
            return layer(*inputs)

    again = with_gradients(lambda *x: checkpoint(quick, *x, use_reentrant=False), *inputs)
    assert all(torch.equal(x, y) for x, y in zip(plain, again, strict=True))


@pytest.mark.parametrize("backend", quick(["aot_eager", "inductor"]))
def test_compiled(backend):
    inputs = heads(8, 64, 4, 4, 32)
    fast = torch.compile(layer, fullgraph=True, backend=backend)
    with own_kernels(CPU):
        compiled = with_gradients(fast, *inputs)
    assert_close(compiled, with_gradients(layer, *(x.double() for x in inputs)))
