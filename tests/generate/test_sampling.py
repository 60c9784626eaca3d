"""Draws come from the right distribution, by chi-square against the exact probabilities."""

from __future__ import annotations

import math

import pytest
import torch

from glassformer.generate.config import GenerationConfig
from glassformer.generate.sampling import chances, draw, shaped

COUNT = 20_000
SCORES = torch.tensor([[2.0, 1.5, 1.0, 0.7, 0.2, -0.5, -1.0, -2.0, -3.0, 0.9]])


def chi_square(counts: torch.Tensor, expected: torch.Tensor) -> float:
    """How far the counts lie from what is expected, in standard deviations of the statistic."""
    possible = expected > 0
    assert counts[~possible].sum() == 0
    statistic = float(((counts - expected)[possible] ** 2 / expected[possible]).sum())
    free = int(possible.sum()) - 1
    return (statistic - free) / math.sqrt(2 * free)


def exact(options: GenerationConfig) -> torch.Tensor:
    """The definition of each option, written out."""
    p = (SCORES[0] / options.temperature).double().softmax(-1)
    order = p.argsort(descending=True).tolist()
    keep = set(order)
    if options.top_k:
        keep &= set(order[: options.top_k])
    if options.top_p < 1:
        mass, nucleus = 0.0, set()
        for token in order:
            if mass >= options.top_p:
                break
            nucleus.add(token)
            mass += float(p[token])
        keep &= nucleus
    if options.min_p:
        keep &= {t for t in order if p[t] >= options.min_p * p.max()}
    if options.typical_p < 1:
        entropy = float(-(p * p.log()).sum())
        near = sorted(order, key=lambda t: abs(-math.log(p[t]) - entropy))
        mass, typical = 0.0, set()
        for token in near:
            if mass >= options.typical_p:
                break
            typical.add(token)
            mass += float(p[token])
        keep &= typical
    kept = torch.tensor([float(p[t]) if t in keep else 0.0 for t in range(len(p))])
    return kept / kept.sum()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.7},
        {"temperature": 1.8},
        {"top_k": 4},
        {"top_p": 0.8},
        {"min_p": 0.2},
        {"typical_p": 0.6},
    ],
    ids=str,
)
def test_draws_are_from_the_exact_distribution(options):
    options = GenerationConfig(do_sample=True, **options)
    chance = chances(3, 0, COUNT)
    drawn = draw(shaped(SCORES, options).expand(COUNT, -1), chance)
    counts = torch.bincount(drawn, minlength=SCORES.shape[1]).double()
    assert chi_square(counts, exact(options) * COUNT) < 4


def test_a_biased_draw_would_be_noticed():
    chance = chances(3, 0, COUNT) ** 1.05
    drawn = draw(SCORES.expand(COUNT, -1), chance)
    counts = torch.bincount(drawn, minlength=SCORES.shape[1]).double()
    assert chi_square(counts, exact(GenerationConfig(do_sample=True)) * COUNT) > 4


def test_an_impossible_token_is_never_drawn_at_the_edges():
    scores = torch.tensor([[float("-inf"), 1.0, float("-inf"), 1.0, float("-inf")]] * 3)
    edges = torch.tensor([1e-300, 0.5, 1.0], dtype=torch.float64)
    assert draw(scores, edges).tolist() == [1, 1, 3]


def test_beams_are_drawn_without_replacement_from_the_right_distribution():
    """The first of two beams that a one-step search draws."""
    import glassformer as gf
    from glassformer import spec

    attention = spec.AttentionSpec(heads=2, head_dim=4)
    block = spec.BlockSpec(
        attention=attention,
        ffn=spec.FeedForwardSpec(width=8),
        norm=spec.NormSpec(),
        pattern=spec.CAUSAL,
    )
    stack = spec.StackSpec(width=8, embed=spec.TokenEmbeddingSpec(vocabulary=6), blocks=(block,))
    head = spec.HeadSpec(name="lm", num_outputs=6, bias="none")
    model = gf.create(spec.ModelSpec(decoder=stack, heads=(head,), init=spec.InitSpec(std=0.5)))
    with torch.no_grad():
        expected = model(torch.tensor([[1, 2]])).logits[0, -1].double().softmax(-1)
    counts = torch.zeros(6, dtype=torch.float64)
    draws = 1500
    for seed in range(draws):
        out = model.generate(
            [1, 2], max_new_tokens=1, num_beams=2, do_sample=True, seed=seed, num_return_sequences=2
        )
        for one in (out, *out.alternatives):
            counts[one.tokens[0]] += 1
    pairs = expected[:, None] * expected[None, :] / (1 - expected[:, None])
    pairs.fill_diagonal_(0.0)
    included = pairs.sum(1) + pairs.sum(0)
    deviation = (included * (1 - included) / draws).sqrt()
    assert torch.all((counts / draws - included).abs() < 4 * deviation)
