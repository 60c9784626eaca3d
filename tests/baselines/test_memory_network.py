"""The memory network, compared with the paper's formulas."""

from __future__ import annotations

import pytest
import tiny
import torch

from glassformer import GlassformerError, spec
from glassformer.core import ActivationCapture
from glassformer.core.embedding import bag


def net_of(hops: int = 2, project: bool = False, length: int = 5):
    sentence = spec.TokenEmbeddingSpec(
        vocabulary=50, bag="plain", position=spec.PositionTableSpec(length=length)
    )
    stack = spec.StackSpec(
        width=8,
        embed=spec.TokenEmbeddingSpec(vocabulary=50, bag="plain"),
        blocks=(spec.MemoryHopSpec(memory=sentence, project=project),) * hops,
    )
    head = spec.HeadSpec(name="answer", pooling="first", num_outputs=50)
    return tiny.transformer(
        spec.ModelSpec(encoder=stack, heads=(head,), init=spec.InitSpec(std=0.3))
    )


@pytest.mark.parametrize("eager", [False, True])
def test_two_hops_by_the_papers_formulas(eager):
    model, question, story = net_of(), tiny.tokens(1, 4), tiny.tokens(1, 3, 6, seed=1)
    seen = ActivationCapture("*")
    with torch.no_grad():
        out = model(
            question, memory_tokens=story, tap=seen, attn_implementation="eager" if eager else None
        )
        u = model.encoder.embed.token.weight[question[0]].sum(0)
        for depth, hop in enumerate(model.encoder.blocks):
            ages = torch.tensor([2, 1, 0])
            keys, values = (
                side.token.weight[story[0]].sum(1) + side.position.weight[ages]
                for side in (hop.key, hop.value)
            )
            p = (keys @ u).softmax(0)
            assert torch.allclose(seen[f"encoder.blocks.{depth}.pattern"][0, 0, 0], p, atol=1e-6)
            u = u + p @ values
            assert torch.allclose(seen[f"encoder.blocks.{depth}.resid_post"][0, 0], u, atol=1e-6)
    assert out.last_hidden_state.shape == (1, 1, 8) and out.logits.shape == (1, 50)
    assert torch.allclose(out.logits[0], model.heads["answer"].out(u), atol=1e-5)


def test_an_answer_can_be_steered_by_its_pattern():
    model, question, story = net_of(1), tiny.tokens(1, 4), tiny.tokens(1, 3, 6, seed=1)

    def second(at, value):
        return torch.tensor([[[[0.0, 1.0, 0.0]]]]) if at.endswith("pattern") else value

    seen = ActivationCapture("*.v")
    with torch.no_grad():
        plain = model(question, memory_tokens=story, tap=seen).last_hidden_state[0, 0]
        steered = model(question, memory_tokens=story, tap=second).last_hidden_state[0, 0]
        start = model.encoder.embed.token.weight[question[0]].sum(0)
    assert torch.allclose(steered, start + seen["encoder.blocks.0.v"][0, 0, 1], atol=1e-6)
    assert not torch.allclose(steered, plain, atol=1e-3)


def test_order_weighs_dimensions_by_the_words_place():
    x, d = torch.ones(3, 4), 4
    expected = [sum((1 - j / 3) - k / d * (1 - 2 * j / 3) for j in (1, 2, 3)) for k in (1, 2, 3, 4)]
    assert torch.allclose(bag(x, None, ordered=True), torch.tensor(expected))
    padded, real = torch.ones(5, 4), torch.tensor([False, True, True, True, False])
    assert torch.allclose(bag(padded, real, ordered=True), torch.tensor(expected))
    assert torch.equal(bag(padded, real, ordered=False), torch.full((4,), 3.0))


def test_without_a_story_or_with_too_long_a_one():
    model = net_of()
    with pytest.raises(GlassformerError, match=r"give its words as `memory_tokens`"):
        model(tiny.tokens(1, 4))
    with pytest.raises(GlassformerError, match=r"\[batch, sentence, word\]"):
        model(tiny.tokens(1, 4), memory_tokens=tiny.tokens(1, 4))
    with pytest.raises(GlassformerError, match="6 sentences, and the model's memory holds 5"):
        model(tiny.tokens(1, 4), memory_tokens=tiny.tokens(1, 6, 2))
