"""Compiled models equal eager ones, in one graph, for one model of each kind."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch
from quick import quick

from glassformer import spec

BOTH = spec.ModelSpec(
    encoder=tiny.stack(1, position=spec.T5BiasSpec()),
    decoder=tiny.stack(1, pattern=spec.CAUSAL, cross=tiny.ATTENTION),
    heads=(tiny.LM,),
)
KINDS = {
    "encoder": (tiny.encoder(2, placement="post"), {}),
    "decoder": (
        tiny.decoder(
            2,
            position=spec.RotarySpec(dim=8),
            attention=replace(tiny.ATTENTION, kv_heads=2),
            ffn=spec.FeedForwardSpec(width=48, activation="silu", gated=True),
            norm=spec.NormSpec(kind="rms", bias=False),
        ),
        {},
    ),
    "both": (BOTH, {"decoder_input_ids": tiny.tokens(2, 6)}),
}


@pytest.mark.parametrize("kind", quick(KINDS, "both"))
def test_compiled_as_eager(kind):
    model, given = KINDS[kind]
    transformer = tiny.transformer(model)
    tokens = tiny.tokens(2, 9)
    mask = torch.arange(9) < torch.tensor([[9], [5]])
    torch._dynamo.reset()
    compiled = torch.compile(transformer, fullgraph=True)
    with torch.no_grad():
        for chosen in (None, mask):
            plain = transformer(tokens, attention_mask=chosen, **given).logits
            fast = compiled(tokens, attention_mask=chosen, **given).logits
            real = torch.ones_like(plain[..., 0], dtype=torch.bool)
            if chosen is not None and kind != "both":
                real = chosen
            assert torch.allclose(fast[real], plain[real], atol=1e-5)


def test_flex_attention_sees_what_the_mask_says():
    """The block mask, evaluated densely, equals the dense mask; the kernel runs on a GPU."""
    from torch.nn.attention.flex_attention import flex_attention

    from glassformer.core.attention.flex import block_mask
    from glassformer.core.attention.mask import self_attention_mask
    from glassformer.core.pass_context import PassContext

    slots = torch.arange(256)
    documents = (slots // 60)[None].repeat(2, 1)
    real = slots < torch.tensor([[256], [200]])
    pattern = spec.AttentionPattern(left=20, right=0)
    ctx = PassContext("decoder", slots, slots, slots[None], key_mask=real, document_ids=documents)
    q, k, v = torch.randn(3, 2, 2, 256, 16, generator=torch.Generator().manual_seed(0))
    sparse = flex_attention(q, k, v, block_mask=block_mask(ctx, pattern, 2))
    dense = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=self_attention_mask(ctx, pattern).mask
    )
    rows = real[:, None, :, None].expand_as(dense)
    assert torch.allclose(sparse[rows], dense[rows], atol=1e-5)
