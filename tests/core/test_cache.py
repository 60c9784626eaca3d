from __future__ import annotations

import pytest
import tiny
import torch

from glassformer import spec
from glassformer.core import Cache


@pytest.mark.parametrize(
    "position",
    [
        None,
        spec.RotarySpec(dim=8),
        spec.T5BiasSpec(bidirectional=False),
        spec.AlibiSpec(),
        spec.RelativePositionSpec(clamp_length=20),
    ],
    ids=str,
)
@pytest.mark.parametrize("pattern", [spec.CAUSAL, spec.AttentionPattern(left=4, right=0)], ids=str)
def test_token_by_token_as_at_once(position, pattern):
    model = tiny.transformer(tiny.decoder(2, position=position, pattern=pattern))
    tokens = tiny.tokens(3, 90)  # beyond the cache's first storage
    cache = Cache()
    with torch.no_grad():
        whole = model(tokens).logits
        steps = torch.cat(
            [model(tokens[:, i : i + 1], past_key_values=cache).logits for i in range(90)], 1
        )
    assert cache.length == 90
    assert torch.allclose(steps, whole, atol=1e-5)


def test_a_mask_that_comes_late_leaves_the_past_real():
    model = tiny.transformer(tiny.decoder(2, position=spec.RotarySpec(dim=8)))
    tokens = tiny.tokens(2, 7)
    late = torch.tensor([[True, True, True], [True, True, False]])
    cache = Cache()
    with torch.no_grad():
        model(tokens[:, :4], past_key_values=cache)
        steps = model(tokens[:, 4:], attention_mask=late, past_key_values=cache).logits
        mask = torch.cat((torch.ones(2, 4, dtype=torch.bool), late), -1)
        whole = model(tokens, attention_mask=mask).logits[:, 4:]
    assert torch.allclose(steps[late], whole[late], atol=1e-5)


def test_select_repeats_and_drops_rows():
    model = tiny.transformer(tiny.decoder(2, position=spec.RotarySpec(dim=8)))
    tokens = tiny.tokens(3, 5)
    mask = torch.arange(5) >= torch.tensor([[0], [2], [1]])
    more = tiny.tokens(4, 2, seed=1)
    rows = torch.tensor([2, 2, 0, 1])
    cache = Cache()
    with torch.no_grad():
        model(tokens, attention_mask=mask, past_key_values=cache)
        cache.select(rows)
        steps = model(more, past_key_values=cache).logits
        whole_mask = torch.cat((mask[rows], torch.ones(4, 2, dtype=torch.bool)), -1)
        whole = model(torch.cat((tokens[rows], more), -1), attention_mask=whole_mask).logits[:, 5:]
    assert torch.allclose(steps, whole, atol=1e-5)


def test_the_encoder_is_read_once():
    model = spec.ModelSpec(
        encoder=tiny.stack(1),
        decoder=tiny.stack(2, pattern=spec.CAUSAL, cross=tiny.ATTENTION),
        heads=(tiny.LM,),
    )
    transformer = tiny.transformer(model)
    source, tokens = tiny.tokens(2, 6), tiny.tokens(2, 5, seed=1)
    source_mask = torch.arange(6) < torch.tensor([[6], [3]])
    calls = []
    transformer.encoder.register_forward_hook(lambda *_: calls.append(1))
    cache = Cache()
    with torch.no_grad():
        whole = transformer(
            decoder_input_ids=tokens, input_ids=source, attention_mask=source_mask
        ).logits
        calls.clear()
        first = transformer(
            decoder_input_ids=tokens[:, :2],
            input_ids=source,
            attention_mask=source_mask,
            past_key_values=cache,
        ).logits
        rest = transformer(decoder_input_ids=tokens[:, 2:], past_key_values=cache).logits
    assert calls == [1]
    assert torch.allclose(torch.cat((first, rest), 1), whole, atol=1e-5)


def test_a_limit_forgets_what_is_older():
    """What a memory of 6 slots says is what the 6 slots before a part would make of it."""
    model = tiny.transformer(tiny.decoder(1, position=spec.AlibiSpec()))
    tokens = tiny.tokens(2, 20)
    memory = Cache(limit=6)
    with torch.no_grad():
        for start in range(0, 20, 4):
            ours = model(tokens[:, start : start + 4], past_key_values=memory).logits
            known = model(tokens[:, max(0, start - 6) : start + 4]).logits[:, -4:]
            assert torch.allclose(ours, known, atol=1e-5)
            assert memory.length == min(6, start + 4)


def test_only_the_first_tokens_of_a_part_are_reused():
    model = tiny.transformer(tiny.decoder(1, position=spec.AlibiSpec()))
    first, second = tiny.tokens(1, 5), tiny.tokens(1, 3, seed=1)
    memory = Cache(limit=9, reuse_length=2)
    with torch.no_grad():
        model(first, past_key_values=memory)
        ours = model(second, past_key_values=memory).logits
        known = model(torch.cat((first[:, :2], second), -1)).logits[:, -3:]
    assert memory.length == 4
    assert torch.allclose(ours, known, atol=1e-5)


def test_nothing_is_learned_through_a_memory():
    """Gradients stop at a segment's start, and a segment can be learned from after the next."""
    model = tiny.transformer(tiny.decoder(2, position=spec.RelativePositionSpec()))
    first, second = torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5, 6]])
    memory = Cache(limit=5)
    before = model(first, past_key_values=memory).logits
    after = model(second, past_key_values=memory).logits
    table = model.decoder.embed.token.weight
    (grad,) = torch.autograd.grad(after.square().sum(), table, retain_graph=True)
    assert torch.all(grad[first] == 0) and torch.all(grad[second].abs().sum(-1) > 0)
    (grad,) = torch.autograd.grad(before.square().sum(), table)
    assert torch.all(grad[first].abs().sum(-1) > 0)
