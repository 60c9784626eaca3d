"""The convolutional layer: padding, the cache, and its receptive field."""

from __future__ import annotations

from itertools import pairwise

import pytest
import tiny
import torch
import torch.nn.functional as F

from glassformer import GlassformerError, spec
from glassformer.core import Cache


def net_of(*layers: spec.ConvolutionalSpec):
    stack = spec.StackSpec(width=12, embed=spec.TokenEmbeddingSpec(vocabulary=50), blocks=layers)
    return tiny.transformer(
        spec.ModelSpec(decoder=stack, heads=(tiny.LM,), init=spec.InitSpec(std=0.2))
    )


CAUSAL = (
    spec.ConvolutionalSpec(kernel=3, causal=True, gated=True, activation="sigmoid"),
    spec.ConvolutionalSpec(kernel=2, dilation=2, causal=True, scale=0.5),
    spec.ConvolutionalSpec(kernel=1, causal=True),
)
CENTERED = (spec.ConvolutionalSpec(kernel=3), spec.ConvolutionalSpec(kernel=4, dilation=2))


def test_a_gated_layer_is_the_sum_with_the_gated_convolution():
    layer = spec.ConvolutionalSpec(kernel=3, gated=True, activation="sigmoid", scale=0.7)
    model = net_of(layer)
    x = model.decoder.embed.token(tiny.tokens(2, 6))
    conv = model.decoder.blocks[0].over_tokens
    gate, values = F.conv1d(x.transpose(1, 2), conv.weight, conv.bias, padding=1).chunk(2, 1)
    expected = (x + (gate.sigmoid() * values).transpose(1, 2)) * 0.7
    assert torch.allclose(model(tiny.tokens(2, 6)).last_hidden_state, expected, atol=1e-6)


def test_a_causal_one_sees_nothing_to_come():
    model, tokens = net_of(*CAUSAL), tiny.tokens(1, 8)
    other = tokens.clone()
    other[0, 5] = (other[0, 5] + 1) % 50
    with torch.no_grad():
        change = (
            (model(tokens).last_hidden_state - model(other).last_hidden_state).abs().amax(-1)[0]
        )
    assert torch.all(change[:5] == 0) and torch.all(change[5:] > 0)


@pytest.mark.parametrize("layers", [CAUSAL, CENTERED], ids=["causal", "centered"])
def test_padding_is_not_read(layers):
    model, tokens = net_of(*layers), tiny.tokens(4, 6)
    with torch.no_grad():
        together = model(tokens, attention_mask=tiny.SCATTERED).last_hidden_state
        for row, real in enumerate(tiny.SCATTERED):
            alone = model(tokens[row : row + 1, real]).last_hidden_state[0]
            assert torch.allclose(together[row, real], alone, atol=1e-6)


@pytest.mark.parametrize("edges", [(0, 6), (0, 2, 6), (0, 1, 2, 3, 4, 5, 6)], ids=str)
def test_the_cache_holds_the_newest_real_tokens(edges):
    model, tokens, more, cache = (
        net_of(*CAUSAL),
        tiny.tokens(4, 6),
        tiny.tokens(4, 2, seed=1),
        Cache(),
    )
    with torch.no_grad():
        for start, stop in pairwise(edges):
            model(
                tokens[:, start:stop],
                attention_mask=tiny.SCATTERED[:, start:stop],
                past_key_values=cache,
            )
        steps = model(more, past_key_values=cache).last_hidden_state
        for row, real in enumerate(tiny.SCATTERED):
            text = torch.cat((tokens[row, real], more[row]))
            assert torch.allclose(
                steps[row], model(text[None]).last_hidden_state[0, -2:], atol=1e-6
            )


def test_what_reads_both_sides_cannot_go_on():
    with pytest.raises(GlassformerError, match="cannot use a cache"):
        net_of(*CENTERED)(tiny.tokens(1, 4), past_key_values=Cache())
