"""Compressed keys, compared with torch's convolution, and their mask."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch

from glassformer import GlassformerError, spec
from glassformer.core import ActivationCapture, Cache

ATTENTION = replace(tiny.ATTENTION, compression_factor=3)


def make(layers: int = 1):
    return tiny.transformer(tiny.decoder(layers, attention=ATTENTION))


@pytest.mark.parametrize("length", [1, 2, 3, 4, 9, 11])
def test_the_keys_are_a_strided_convolution_behind_the_first_token(length):
    model, seen = make(), ActivationCapture("*.k", "*.v", "*.pattern")
    attention = model.decoder.blocks[0].attention
    with torch.no_grad():
        x = model.decoder.blocks[0].attention_norm(
            model.decoder.embed.token(tiny.tokens(2, length))
        )
        model(tiny.tokens(2, length), tap=seen)
        _, k, v = attention.qkv(x).split(32, -1)
        for name, plain in (("k", k), ("v", v)):
            conv = getattr(attention, f"{name}_compress").over_tokens
            groups = conv(plain.mT).mT if length >= 3 else plain[:, :0]
            expected = torch.cat((plain[:, :1], groups), 1).unflatten(-1, (4, 8)).transpose(1, 2)
            assert torch.allclose(seen[f"decoder.blocks.0.{name}"], expected, atol=1e-5)
    pattern = seen["decoder.blocks.0.pattern"] > 0
    for query in range(length):
        visible = [True, *(3 * group <= query for group in range(1, length // 3 + 1))]
        assert pattern[0, 0, query].tolist() == visible


def test_nothing_leaks_from_the_future():
    model, tokens = make(2), tiny.tokens(1, 13)
    with torch.no_grad():
        whole = model(tokens).logits
        for length in range(1, 13):
            assert torch.allclose(model(tokens[:, :length]).logits, whole[:, :length], atol=1e-5)


@pytest.mark.parametrize("cuts", [(1,) * 13, (2, 5, 1, 4, 1), (13,)])
def test_a_group_may_be_completed_later(cuts):
    """With the cache, however the text is cut; the second text has padding in its midst."""
    model, tokens = make(2), tiny.tokens(2, 13)
    mask = torch.ones_like(tokens, dtype=torch.bool)
    mask[1, [0, 3, 4, 7]] = False
    cache = Cache()
    with torch.no_grad():
        whole = model(tokens, attention_mask=mask).logits
        alone = model(tokens[1:, mask[1]]).logits
        steps = zip(tokens.split(cuts, 1), mask.split(cuts, 1), strict=True)
        pieces = torch.cat(
            [model(part, attention_mask=m, past_key_values=cache).logits for part, m in steps], 1
        )
    assert torch.allclose(pieces[mask], whole[mask], atol=1e-5)
    assert torch.allclose(whole[1, mask[1]], alone[0], atol=1e-5)


def test_what_it_cannot_read_it_says():
    model, tokens = make(), tiny.tokens(1, 6)
    with pytest.raises(GlassformerError, match="one text per row"):
        model(tokens, document_ids=torch.zeros_like(tokens))
    with pytest.raises(GlassformerError, match="causal pattern"):
        tiny.encoder(1, attention=ATTENTION)
    with pytest.raises(GlassformerError, match="causal pattern"):
        tiny.decoder(1, attention=ATTENTION, position=spec.RotarySpec(dim=8))
