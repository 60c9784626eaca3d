"""The CPU attention kernel without gradients, compared with plain torch in float64."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

import glassformer as gf
from glassformer.native.attention import attend, attend_runs, library, prefers_attention


@pytest.fixture(autouse=True)
def compiler():
    if library() is None:
        pytest.skip("there is no compiler")


def heads(batch, queries, keys, count=4, key_heads=4, dim=32):
    draw = torch.Generator().manual_seed(0)
    shapes = (count, queries), (key_heads, keys), (key_heads, keys)
    return [torch.randn(batch, n, length, dim, generator=draw) for n, length in shapes]


def padding(batch, length, side):
    """Texts of all lengths down to one token; `holes` are hidden anywhere."""
    sizes = torch.linspace(1, length, batch).long()[:, None]
    slots = torch.arange(length)
    if side == "holes":
        kept = torch.rand(batch, length, generator=torch.Generator().manual_seed(1)) < 0.5
        return kept | (slots == 0)
    return slots < sizes if side == "right" else slots >= length - sizes


@pytest.mark.parametrize("side", ["right", "left", "holes"])
@pytest.mark.parametrize(("length", "key_heads"), [(37, 4), (64, 2), (130, 1)])
def test_padding_is_not_seen(side, length, key_heads):
    q, k, v = heads(8, length, length, key_heads=key_heads)
    mask = padding(8, length, side)[:, None, None]
    with torch.inference_mode():
        assert prefers_attention(q, k, v, mask, False)
        z, sizes = attend(q, k, v, mask, False, 0.3)
    wide = [x.double() for x in (q, k, v)]
    exact = F.scaled_dot_product_attention(*wide, mask, scale=0.3, enable_gqa=True)
    torch.testing.assert_close(z.double(), exact, atol=1e-5, rtol=1e-5)
    scores = wide[0] @ wide[1].repeat_interleave(4 // key_heads, 1).transpose(-1, -2) * 0.3
    exact = scores.masked_fill(~mask, -torch.inf).logsumexp(-1)
    torch.testing.assert_close(sizes.double(), exact, atol=1e-5, rtol=1e-5)


def test_who_sees_nothing_reads_zeros():
    q, k, v = heads(4, 40, 40)
    mask = torch.tensor([True, False, True, False])[:, None, None, None].expand(4, 1, 1, 40)
    with torch.inference_mode():
        z, _ = attend(q, k, v, mask, False, 0.3)
    assert not z[[1, 3]].any()
    assert z[[0, 2]].all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("key_heads", [4, 2])
def test_texts_in_one_row_do_not_see_each_other(causal, key_heads):
    lengths = [1, 40, 3, 33, 130, 64]
    q, k, v = heads(1, sum(lengths), sum(lengths), key_heads=key_heads)
    runs = torch.tensor([0, *lengths]).cumsum(0)
    with torch.inference_mode():
        found = attend_runs(q, k, v, runs, causal, 0.3)
    for start, end in pairwise(runs):
        one = [x[:, :, start:end].double() for x in (q, k, v)]
        exact = F.scaled_dot_product_attention(*one, is_causal=causal, scale=0.3, enable_gqa=True)
        torch.testing.assert_close(found[:, :, start:end].double(), exact, atol=1e-5, rtol=1e-5)


def test_with_a_gradient_torch_has_it():
    q, k, v = heads(4, 40, 40)
    assert not prefers_attention(q, k, v, None, False)
    with torch.inference_mode():
        assert not prefers_attention(q, k, v, torch.ones(4, 1, 40, 40).bool(), False)
        assert not prefers_attention(q, k, v, torch.zeros(4, 1, 1, 40), False)
        assert not prefers_attention(q, k[:, :, 1:], v[:, :, 1:], None, True)
        assert not prefers_attention(*(x.double() for x in (q, k, v)), None, False)


@pytest.mark.parametrize("preset", ["bert-base", "llama-7b"])
def test_a_net_computes_what_it_does_by_torch_alone(preset):
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = gf.create(preset, vocab_size=50, intermediate_size=96, **shape).eval()
    tokens = torch.randint(1, 50, (8, 40), generator=torch.Generator().manual_seed(2))
    mask = padding(8, 40, "right")
    with torch.inference_mode():
        found, plain = (
            model(tokens, mask, attn_implementation="eager" if eager else None).last_hidden_state
            for eager in (False, True)
        )
    torch.testing.assert_close(found[mask], plain[mask], atol=1e-5, rtol=1e-5)
