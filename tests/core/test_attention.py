"""Attention, compared with its formula written as loops over heads and positions."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import tiny
import torch

from glassformer import spec
from glassformer.core import ActivationCapture


def by_hand(x, module, attention: spec.AttentionSpec):
    """softmax(q k / sqrt(d)) v for each head, one query at a time, causal."""
    d, groups = attention.head_dim, attention.heads // attention.key_heads
    q, k, v = module.qkv(x).split(module.qkv.parts, -1)
    if attention.qk_norm is not None:
        q, k = normed(q, module.q_norm, d), normed(k, module.k_norm, d)
    joined = []
    for head in range(attention.heads):
        mine = slice(head * d, (head + 1) * d)
        theirs = slice(head // groups * d, (head // groups + 1) * d)
        rows = []
        for i in range(len(x)):
            if attention.score == "dot":
                scores = torch.stack([q[i, mine] @ k[j, theirs] for j in range(i + 1)])
                scores = scores * (attention.scale or 1 / math.sqrt(d))
            else:
                direction = module.attend.direction[head]
                scores = torch.stack(
                    [torch.tanh(q[i, mine] + k[j, theirs]) @ direction for j in range(i + 1)]
                )
            if attention.softcap is not None:
                scores = attention.softcap * torch.tanh(scores / attention.softcap)
            weights = torch.exp(scores) / torch.exp(scores).sum()
            rows.append(sum(w * v[j, theirs] for j, w in enumerate(weights)))
        joined.append(torch.stack(rows))
    return module.out(torch.cat(joined, -1))


def normed(x, norm, d: int):
    """Each head's part divided by its root mean square, then scaled."""
    parts = [part / (part.square().mean(-1, keepdim=True) + 1e-5).sqrt() for part in x.split(d, -1)]
    return torch.cat([part * norm.weight for part in parts], -1)


RMS = spec.NormSpec(kind="rms", bias=False)


@pytest.mark.parametrize("kv_heads", [None, 2, 1])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"scale": 1.0},
        {"score": "additive"},
        {"score": "additive", "scale": 1.0},
        {"softcap": 0.7, "scale": 1.0},
        {"qk_norm": RMS},
        {"qk_norm": RMS, "softcap": 0.7},
    ],
    ids=str,
)
def test_attention_is_its_formula(kv_heads, given):
    attention = replace(tiny.ATTENTION, kv_heads=kv_heads, **given)
    model = tiny.transformer(tiny.decoder(1, attention=attention))
    if attention.qk_norm is not None:
        module = model.decoder.blocks[0].attention
        module.q_norm.weight.data = torch.linspace(0.5, 2.0, 8)
        module.k_norm.weight.data = torch.linspace(1.5, 1.0, 8)
    seen = ActivationCapture("*.attn_out", "*.resid_pre")
    with torch.no_grad():
        model(tiny.tokens(1, 6), tap=seen)
        block = model.decoder.blocks[0]
        x = block.attention_norm(seen["decoder.blocks.0.resid_pre"])[0]
        expected = by_hand(x, block.attention, attention)
    assert torch.allclose(seen["decoder.blocks.0.attn_out"][0], expected, atol=1e-6)


@pytest.mark.parametrize("kv_heads", [None, 2, 1])
@pytest.mark.parametrize(
    "position",
    [
        None,
        spec.RotarySpec(dim=8),
        spec.T5BiasSpec(),
        spec.AlibiSpec(),
        spec.ShawSpec(max_distance=3, values=False),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "pattern", [spec.CAUSAL, spec.FULL, spec.AttentionPattern(left=3, right=1)], ids=str
)
def test_fused_as_eager_and_in_the_gradient(kv_heads, position, pattern):
    attention = replace(tiny.ATTENTION, kv_heads=kv_heads)
    model = tiny.encoder(2, attention=attention, position=position, pattern=pattern)
    results = []
    for eager in (False, True):
        transformer = tiny.transformer(model)
        mask = torch.arange(11) < torch.tensor([[11], [6]])
        out = transformer(
            tiny.tokens(2, 11), attention_mask=mask, attn_implementation="eager" if eager else None
        ).logits[mask]
        out.square().sum().backward()
        results.append((out.detach(), {n: p.grad for n, p in transformer.named_parameters()}))
    (fused, fused_grads), (eager_out, eager_grads) = results
    assert torch.allclose(fused, eager_out, atol=1e-5)
    for name, grad in eager_grads.items():
        if grad is not None:
            assert torch.allclose(fused_grads[name], grad, atol=1e-3, rtol=1e-4), name


@pytest.mark.parametrize("given", [{"softcap": 0.5}, {"qk_norm": spec.NormSpec()}], ids=str)
def test_capped_or_normed_the_same_in_every_way(given):
    """The softmax's weights as the tap sees them, plain and fused, and with the cache."""
    from glassformer.core import Cache

    model = tiny.decoder(
        2, attention=replace(tiny.ATTENTION, **given), position=spec.RotarySpec(dim=8)
    )
    transformer, tokens, seen = (
        tiny.transformer(model),
        tiny.tokens(2, 9),
        ActivationCapture("*.scores", "*.pattern"),
    )
    with torch.no_grad():
        plain = transformer(tokens).logits
        assert torch.equal(transformer(tokens, tap=seen).logits, plain)
        assert torch.allclose(
            transformer(tokens, attn_implementation="eager").logits, plain, atol=1e-5
        )
        cache = Cache()
        parts = [
            transformer(part, past_key_values=cache).logits
            for part in tokens.split((4, 1, 1, 3), 1)
        ]
    assert torch.allclose(torch.cat(parts, 1), plain, atol=1e-5)
    scores = seen["decoder.blocks.0.scores"]
    assert torch.allclose(seen["decoder.blocks.0.pattern"], scores.softmax(-1), atol=1e-6)
    if "softcap" in given:
        assert scores[scores > -1e9].abs().max() <= 0.5


def test_cross_attention_norms_queries_and_keys_too():
    attention = replace(tiny.ATTENTION, qk_norm=RMS)
    model = spec.ModelSpec(
        encoder=tiny.stack(1), decoder=tiny.stack(1, pattern=spec.CAUSAL, cross=attention)
    )
    seen = ActivationCapture("decoder.*.cross.q", "decoder.*.cross.k")
    with torch.no_grad():
        tiny.transformer(model)(
            tiny.tokens(1, 5, seed=1), decoder_input_ids=tiny.tokens(1, 3), tap=seen
        )
    for value in seen.tensors.values():
        sizes = value.square().mean(-1)
        assert torch.allclose(sizes, torch.ones_like(sizes), atol=2e-2)  # all but the epsilon


def test_cross_attention_reads_the_encoders_last_layer():
    model = spec.ModelSpec(
        encoder=tiny.stack(2),
        decoder=tiny.stack(2, pattern=spec.CAUSAL, cross=tiny.ATTENTION),
        heads=(tiny.LM,),
    )
    transformer = tiny.transformer(model)
    seen = ActivationCapture("encoder.final", "decoder.blocks.*.cross.k")
    with torch.no_grad():
        transformer(
            decoder_input_ids=tiny.tokens(1, 3), input_ids=tiny.tokens(1, 5, seed=1), tap=seen
        )
        for depth, block in enumerate(transformer.decoder.blocks):
            keys = block.cross.kv(seen["encoder.final"])[..., :32]
            expected = keys.unflatten(-1, (4, 8)).transpose(1, 2)
            assert torch.equal(seen[f"decoder.blocks.{depth}.cross.k"], expected)


def test_heads_that_cannot_share_keys_evenly_are_refused():
    from glassformer import GlassformerError

    with pytest.raises(GlassformerError, match="5 attention heads cannot share 2"):
        spec.AttentionSpec(heads=5, kv_heads=2, head_dim=4)
