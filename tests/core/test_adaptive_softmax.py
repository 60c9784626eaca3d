"""The adaptive softmax, compared with torch's and with a single table."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch

from glassformer import spec
from glassformer.core.adaptive_softmax import AdaptiveLookup, AdaptiveSoftmax
from glassformer.errors import GlassformerError


def filled(module: torch.nn.Module) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return module


def test_the_softmax_is_torchs():
    ours = filled(
        AdaptiveSoftmax(12, 30, spec.AdaptiveSpec(cutoffs=(8, 15), width=12, div_value=2))
    )
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(12, 30, [8, 15], div_value=2.0, head_bias=True)
    with torch.no_grad():
        for i in (1, 2):  # torch's tails have no bias
            ours.tables[i].bias.zero_()
        head = torch.cat((ours.tables[0].weight, ours.rarer.weight))
        theirs.head.weight.copy_(head @ ours.projects[0].weight.T)
        theirs.head.bias.copy_(torch.cat((ours.tables[0].bias, ours.rarer.bias)))
        for i in (1, 2):
            theirs.tail[i - 1][0].weight.copy_(ours.projects[i].weight.T)
            theirs.tail[i - 1][1].weight.copy_(ours.tables[i].weight)
        x = torch.randn(4, 5, 12, generator=torch.Generator().manual_seed(1))
        expected = theirs.log_prob(x.flatten(0, 1)).view(4, 5, 30)
        assert torch.allclose(ours(x), expected, atol=1e-5)


@pytest.mark.parametrize("shrink", [1, 2])
@pytest.mark.parametrize("width", [12, 16])
@pytest.mark.parametrize("cutoffs", [(), (8, 15)])
def test_probabilities_add_up_to_one(shrink, width, cutoffs):
    clusters = spec.AdaptiveSpec(cutoffs=cutoffs, width=width, div_value=shrink)
    head = filled(AdaptiveSoftmax(12, 30, clusters))
    said = head(torch.randn(3, 2, 12, generator=torch.Generator().manual_seed(1)))
    assert said.shape == (3, 2, 30)
    assert torch.allclose(said.exp().sum(-1), torch.ones(3, 2), atol=1e-5)


def test_a_word_is_looked_up_in_its_cluster():
    lookup = filled(
        AdaptiveLookup(30, 12, spec.AdaptiveSpec(cutoffs=(8, 15), width=8, div_value=2))
    )
    words = torch.arange(30)[None]
    for word, vector in enumerate(lookup(words)[0]):
        i = (word >= 8) + (word >= 15)
        row = lookup.tables[i].weight[word - (0, 8, 15)[i]]
        assert row.shape == ((8, 4, 2)[i],)
        assert torch.allclose(vector, lookup.projects[i].weight @ row, atol=1e-6)


def test_what_cannot_be_is_said():
    with pytest.raises(GlassformerError, match="ascending"):
        spec.AdaptiveSpec(cutoffs=(9, 9), width=8)
    with pytest.raises(GlassformerError, match="shrink"):
        spec.AdaptiveSpec(cutoffs=(9, 12), width=8, div_value=4)
    clusters = spec.AdaptiveSpec(cutoffs=(9, 80), width=8)
    with pytest.raises(GlassformerError, match="beyond the vocabulary"):
        tiny.transformer(replace(tiny.decoder(1), heads=(replace(tiny.LM, adaptive=clusters),)))
