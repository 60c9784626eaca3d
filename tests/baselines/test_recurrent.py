"""The LSTM layer: padding, the cache and dropout; compared with torch's kernel."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import tiny
import torch

import glassformer as gf
from glassformer import GlassformerError, spec
from glassformer.baselines.recurrent import locked_dropout, truncate
from glassformer.core import ActivationCapture, Cache


def model(*layers: spec.RecurrentSpec, **embed) -> spec.ModelSpec:
    stack = spec.StackSpec(
        width=12, embed=spec.TokenEmbeddingSpec(vocabulary=50, **embed), blocks=layers
    )
    return spec.ModelSpec(decoder=stack, heads=(tiny.LM,))


TWO = model(spec.RecurrentSpec(width=20), spec.RecurrentSpec(width=8))


def test_layers_of_different_widths_are_torchs():
    model = tiny.transformer(TWO)
    assert model.spec.last_stack.widths == (12, 20, 8) and model.spec.last_stack.out_width == 8
    x = model.decoder.embed.token(tiny.tokens(3, 7))
    for block, (inputs, outputs) in zip(model.decoder.blocks, ((12, 20), (20, 8)), strict=True):
        walk, theirs = block.ahead, torch.nn.LSTM(inputs, outputs, batch_first=True)
        ours = (walk.weight_in, walk.weight_state, walk.bias_in, walk.bias_state)
        theirs.load_state_dict(dict(zip(theirs.state_dict(), ours, strict=True)))
        x = theirs(x)[0]
    with torch.no_grad():
        assert torch.allclose(model(tiny.tokens(3, 7)).last_hidden_state, x, atol=1e-6)


@pytest.mark.parametrize("both", [False, True], ids=["ahead", "both ways"])
def test_padding_moves_no_state(both):
    transformer = tiny.transformer(model(*[spec.RecurrentSpec(width=20, bidirectional=both)] * 2))
    tokens = tiny.tokens(4, 6)
    with torch.no_grad():
        together = transformer(tokens, attention_mask=tiny.SCATTERED).last_hidden_state
        for row, real in enumerate(tiny.SCATTERED):
            alone = transformer(tokens[row : row + 1, real]).last_hidden_state[0]
            assert torch.allclose(together[row, real], alone, atol=1e-6)


@pytest.mark.parametrize("edges", [(0, 6), (0, 2, 6), (0, 1, 2, 3, 4, 5, 6), (0, 4, 5, 6)], ids=str)
def test_the_state_in_the_cache_is_that_of_the_real_tokens(edges):
    model = tiny.transformer(TWO)
    tokens, more, cache = tiny.tokens(4, 6), tiny.tokens(4, 2, seed=1), Cache()
    with torch.no_grad():
        for start, stop in pairwise(edges):
            model(
                tokens[:, start:stop],
                attention_mask=tiny.SCATTERED[:, start:stop],
                past_key_values=cache,
            )
        cache.select(torch.tensor([1, 0, 2, 3]))
        steps = model(more, past_key_values=cache).last_hidden_state
        for place, row in enumerate((1, 0, 2, 3)):
            text = torch.cat((tokens[row, tiny.SCATTERED[row]], more[place]))
            assert torch.allclose(
                steps[place], model(text[None]).last_hidden_state[0, -2:], atol=1e-6
            )


def test_states_of_two_caches_join():
    model, tokens, more = tiny.transformer(TWO), tiny.tokens(3, 6), tiny.tokens(3, 2, seed=1)
    first, second = Cache(), Cache()
    with torch.no_grad():
        model(tokens[:2], past_key_values=first)
        model(tokens[2:, :4], past_key_values=second)
        first.join(second)
        steps = model(more, past_key_values=first).last_hidden_state
        whole = model(torch.cat((tokens[:2], more[:2]), -1)).last_hidden_state[:, -2:]
        short = model(torch.cat((tokens[2:, :4], more[2:]), -1)).last_hidden_state[:, -2:]
    assert torch.allclose(steps, torch.cat((whole, short)), atol=1e-6)


def test_a_state_that_has_moved_on_is_not_cut():
    model, cache = tiny.transformer(TWO), Cache()
    model(tiny.tokens(1, 4), past_key_values=cache)
    with pytest.raises(GlassformerError, match="process the text again"):
        cache.crop(2)


def test_what_reads_from_the_end_cannot_go_on():
    transformer = tiny.transformer(model(spec.RecurrentSpec(width=20, bidirectional=True)))
    with pytest.raises(GlassformerError, match="cannot use a cache"):
        transformer(tiny.tokens(1, 4), past_key_values=Cache())


def test_packed_documents_are_refused():
    with pytest.raises(GlassformerError, match="one row per text"):
        tiny.transformer(TWO)(tiny.tokens(1, 4), document_ids=torch.tensor([[0, 0, 1, 1]]))


def test_a_layer_of_another_width_is_not_read_out():
    model = tiny.transformer(TWO)
    with pytest.raises(GlassformerError, match="have 20 numbers, and the head needs 8"):
        model.readout(torch.zeros(1, 2, 20))


def test_widths_that_cannot_be():
    with pytest.raises(GlassformerError, match="an even width, not 7"):
        spec.RecurrentSpec(width=7, bidirectional=True)
    with pytest.raises(GlassformerError, match="vectors of two widths"):
        replace(TWO.decoder, order=(0, 0, 1))


def test_a_fresh_state_starts_as_torchs_does():
    transformer = tiny.transformer(model(spec.RecurrentSpec(width=100)))
    for values in transformer.decoder.blocks[0].parameters():
        assert values.abs().max() <= 0.1 and abs(float(values.std()) - 0.1 / 3**0.5) < 0.005


def test_saved_and_loaded_by_its_spec(tmp_path):
    made = gf.create(TWO, seed=3)
    made.save(tmp_path / "own")
    back = gf.load(tmp_path / "own")
    assert back.spec == TWO
    with torch.no_grad():
        tokens = tiny.tokens(2, 5)
        assert torch.equal(back(tokens).logits, made(tokens).logits)


# --- dropouts: off at evaluation, right on average, and how far one mask reaches -----------------

DROPPING = model(
    spec.RecurrentSpec(width=20, dropout_in=0.4, weight_dropout=0.5, dropout=0.3),
    spec.RecurrentSpec(width=8, weight_dropout=0.5),
    word_dropout=0.3,
)


def test_nothing_is_dropped_at_evaluation():
    tokens = tiny.tokens(2, 6)
    with torch.no_grad():
        assert torch.equal(
            tiny.transformer(DROPPING)(tokens).last_hidden_state,
            tiny.transformer(TWO)(tokens).last_hidden_state,
        )
        assert not torch.equal(
            tiny.transformer(DROPPING).train()(tokens).last_hidden_state,
            tiny.transformer(TWO)(tokens).last_hidden_state,
        )


def test_locked_dropout_keeps_one_mask_for_all_positions_of_a_text():
    torch.manual_seed(0)
    x = torch.ones(200, 7, 50)
    dropped = locked_dropout(x, 0.4, training=True)
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert not torch.equal(dropped[0], dropped[1])
    assert abs(float(dropped.mean()) - 1) < 0.02
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.6])
    assert locked_dropout(x, 0.4, training=False) is x


def test_layers_lock_their_dropouts():
    torch.manual_seed(0)
    transformer = tiny.transformer(model(spec.RecurrentSpec(width=30, dropout=0.5))).train()
    seen = ActivationCapture("*.resid_post")
    with torch.no_grad():
        transformer(tiny.tokens(4, 9), tap=seen)
    zero = seen["decoder.blocks.0.resid_post"] == 0
    assert torch.equal(zero, zero[:, :1].expand_as(zero)) and 0.3 < zero.float().mean() < 0.7


def test_weights_are_dropped_from_state_to_state_alone():
    """One mask a pass, for all rows and steps; a first step, from nothing, sees no difference."""
    torch.manual_seed(0)
    transformer = tiny.transformer(model(spec.RecurrentSpec(width=20, weight_dropout=0.5))).train()
    plain, tokens = (
        tiny.transformer(model(spec.RecurrentSpec(width=20))),
        tiny.tokens(1, 6).repeat(3, 1),
    )
    with torch.no_grad():
        dropped, whole = transformer(tokens).last_hidden_state, plain(tokens).last_hidden_state
    assert torch.allclose(dropped[:, 0], whole[:, 0], atol=1e-6)
    assert not torch.allclose(dropped[:, 1], whole[:, 1], atol=1e-4)
    assert torch.allclose(dropped[0], dropped[1], atol=1e-6)
    assert not torch.allclose(
        transformer(tokens).last_hidden_state, dropped, atol=1e-4
    )  # the next pass draws anew


def test_dropped_weights_are_scaled_and_learn_where_they_were_kept():
    transformer = tiny.transformer(model(spec.RecurrentSpec(width=20, weight_dropout=0.25))).train()
    plain = tiny.transformer(model(spec.RecurrentSpec(width=20)))
    weight, whole = (n.decoder.blocks[0].ahead.weight_state for n in (transformer, plain))
    before = weight.detach().clone()
    torch.manual_seed(0)
    out = transformer(tiny.tokens(2, 6)).last_hidden_state
    out.sum().backward()
    assert torch.equal(weight, before)
    kept = weight.grad != 0
    assert 0.65 < kept.float().mean() < 0.85
    with torch.no_grad():
        whole.copy_(torch.where(kept, before / 0.75, 0.0))  # on average what it was
        assert torch.allclose(plain(tiny.tokens(2, 6)).last_hidden_state, out, atol=1e-6)


def test_gradients_go_back_so_many_tokens():
    """As if each segment were read by itself, from the state that the one before has left."""
    model = tiny.transformer(TWO)
    tokens = tiny.tokens(2, 11)
    whole = model(tokens).last_hidden_state
    truncate(model, 4)
    assert torch.allclose(model(tokens).last_hidden_state, whole, atol=1e-6)
    model(tokens).last_hidden_state.square().sum().backward()
    ours = {name: weight.grad for name, weight in model.decoder.named_parameters()}
    other, cache = tiny.transformer(TWO), Cache()
    for start in range(0, 11, 4):
        other(
            tokens[:, start : start + 4], past_key_values=cache
        ).last_hidden_state.square().sum().backward()
        for depth in range(2):
            cache.set_state(depth, tuple(each.detach() for each in cache.state(depth)))
    for name, weight in other.decoder.named_parameters():
        assert torch.allclose(ours[name], weight.grad, atol=1e-5), name
    other.zero_grad()
    other(tokens).last_hidden_state.square().sum().backward()
    state = "blocks.0.ahead.weight_state"
    assert not torch.allclose(ours[state], other.decoder.get_parameter(state).grad, atol=1e-4)


def test_gradients_stop_where_they_should_beside_padding():
    model = tiny.transformer(TWO)
    tokens, mask = tiny.tokens(2, 9), torch.ones(2, 9, dtype=torch.bool)
    mask[0, :3] = False
    truncate(model, 4)
    both = model(tokens, mask).last_hidden_state
    for row in range(2):
        alone = model(tokens[row : row + 1, mask[row]]).last_hidden_state
        assert torch.allclose(both[row, mask[row]], alone[0], atol=1e-6)


def test_what_a_layer_says_before_dropout_can_be_seen():
    transformer = tiny.transformer(model(spec.RecurrentSpec(width=30, dropout=0.5))).train()
    seen = ActivationCapture("*.recurrent_out", "*.resid_post")
    with torch.no_grad():
        transformer(tiny.tokens(4, 9), tap=seen)
    before, after = (seen[f"decoder.blocks.0.{name}"] for name in ("recurrent_out", "resid_post"))
    kept = after != 0
    assert not kept.all() and torch.allclose(after[kept], 2 * before[kept], atol=1e-6)
