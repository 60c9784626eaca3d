from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch

from glassformer import GlassformerError, spec

MASK = torch.tensor(
    [[False, False, True, True, True, True], [True, True, True, False, False, False]]
)


def run(head: spec.HeadSpec, tokens=None, **given):
    model = replace(tiny.encoder(1), heads=(head,), tokens=spec.SpecialTokens(eos=7, pad=0))
    transformer = tiny.transformer(model)
    with torch.no_grad():
        out = transformer(tiny.tokens(2, 6) if tokens is None else tokens, **given)
    return transformer.heads[head.name], out


@pytest.mark.parametrize(
    ("pick", "slots"), [("first", (2, 0)), ("last", (5, 2))], ids=["first", "last"]
)
def test_pick_one_real_token(pick, slots):
    head, out = run(spec.HeadSpec(name="h", pooling=pick, num_outputs=3), attention_mask=MASK)
    expected = torch.stack([out.last_hidden_state[row, slot] for row, slot in enumerate(slots)])
    assert torch.allclose(out.logits, head.out(expected), atol=1e-6)


def test_mean_of_the_real_tokens():
    head, out = run(spec.HeadSpec(name="h", pooling="mean", num_outputs=3), attention_mask=MASK)
    expected = torch.stack([out.last_hidden_state[row, MASK[row]].mean(0) for row in range(2)])
    assert torch.allclose(out.logits, head.out(expected), atol=1e-6)


def test_maximum_of_the_real_tokens():
    head, out = run(spec.HeadSpec(name="h", pooling="max", num_outputs=3), attention_mask=MASK)
    expected = torch.stack([out.last_hidden_state[row, MASK[row]].amax(0) for row in range(2)])
    assert torch.allclose(out.logits, head.out(expected), atol=1e-6)


def test_last_maximum_and_mean_side_by_side_behind_a_norm():
    head, out = run(
        spec.HeadSpec(name="h", pooling="concat", norm=spec.NormSpec(), num_outputs=3),
        attention_mask=MASK,
    )
    real = [out.last_hidden_state[row, MASK[row]] for row in range(2)]
    expected = torch.stack([torch.cat((x[-1], x.amax(0), x.mean(0))) for x in real])
    assert expected.shape == (2, 96)
    assert torch.allclose(out.logits, head.out(head.norm(expected)), atol=1e-6)


def test_the_last_end_of_text():
    tokens = torch.tensor([[7, 1, 2, 7, 3, 4], [1, 2, 3, 4, 5, 7]])
    head, out = run(spec.HeadSpec(name="h", pooling="eos", num_outputs=3), tokens=tokens)
    assert torch.allclose(out.logits, head.out(out.last_hidden_state[[0, 1], [3, 5]]), atol=1e-6)


def test_a_text_without_an_end_is_refused():
    tokens = torch.tensor([[1, 1, 2, 7, 3, 4], [1, 2, 3, 4, 5, 6]])
    with pytest.raises(GlassformerError, match=r"end-of-text token \(id 7\)"):
        run(spec.HeadSpec(name="h", pooling="eos", num_outputs=3), tokens=tokens)


def test_where_to_read_can_be_given():
    head, out = run(
        spec.HeadSpec(name="h", pooling="last", num_outputs=3), head_positions=torch.tensor([1, 4])
    )
    assert torch.allclose(out.logits, head.out(out.last_hidden_state[[0, 1], [1, 4]]), atol=1e-6)


def test_transform_then_projection():
    transform = spec.TransformSpec(width=12, activation="tanh", norm=spec.NormSpec())
    head, out = run(spec.HeadSpec(name="h", transform=transform, num_outputs=3, scale=0.5))
    inner = head.transform.norm(torch.tanh(head.transform.dense(out.last_hidden_state * 0.5)))
    assert torch.allclose(out.logits, head.out(inner), atol=1e-6)


def test_capped_logits():
    head, out = run(spec.HeadSpec(name="h", num_outputs=3, softcap=0.3))
    assert torch.allclose(
        out.logits, 0.3 * torch.tanh(head.out(out.last_hidden_state) / 0.3), atol=1e-6
    )
    assert out.logits.abs().max() < 0.3 < head.out(out.last_hidden_state).abs().max()


def test_a_stack_that_leaves_with_another_width():
    from glassformer.core import ActivationCapture

    model = tiny.decoder(1)
    transformer = tiny.transformer(
        replace(model, decoder=replace(model.decoder, projection_width=12))
    )
    seen = ActivationCapture("*.resid_post", "*.final")
    with torch.no_grad():
        out = transformer(tiny.tokens(2, 6), tap=seen)
        last = seen["decoder.blocks.0.resid_post"]
        expected = transformer.decoder.final_norm(last) @ transformer.decoder.project.weight.T
    assert out.last_hidden_state.shape == (2, 6, 12) and transformer.spec.last_stack.out_width == 12
    assert torch.allclose(out.last_hidden_state, expected, atol=1e-6)
    assert torch.allclose(out.logits, expected @ transformer.heads["lm"].out.weight.T, atol=1e-6)
    assert torch.allclose(transformer.readout(last), out.logits, atol=1e-6)


def test_a_transform_without_bias():
    head, out = run(
        spec.HeadSpec(
            name="h",
            transform=spec.TransformSpec(width=12, activation="relu", bias=False),
            num_outputs=3,
        )
    )
    assert head.transform.dense.bias is None
    inner = torch.relu(out.last_hidden_state @ head.transform.dense.weight.T)
    assert torch.allclose(out.logits, head.out(inner), atol=1e-6)


def test_one_number_per_position():
    head, out = run(spec.HeadSpec(name="h", num_outputs=1, scalar=True))
    expected = (out.last_hidden_state * head.out.weight[0]).sum(-1) + head.out.bias
    assert out.logits.shape == (2, 6)
    assert torch.allclose(out.logits, expected, atol=1e-6)


@pytest.mark.parametrize("mask", [MASK, None], ids=["padded", "whole"])
def test_a_decoder_that_starts_from_the_texts_own_last_token(mask):
    from glassformer.core import Transformer
    from glassformer.core.input_rules import last_tokens, shifted_right

    tokens = torch.tensor([[0, 0, 5, 6, 7, 8], [4, 3, 2, 0, 0, 0]])
    last = [8, 2] if mask is not None else [8, 0]
    assert last_tokens(tokens, mask)[:, 0].tolist() == last
    body = tiny.encoder(1)
    crossed = tiny.stack(1, pattern=spec.CAUSAL, cross=tiny.ATTENTION)
    both = replace(body, decoder=crossed, shift_right=True, decoder_start="last_token")
    model: Transformer = tiny.transformer(both)
    with torch.no_grad():
        out = model(tokens, attention_mask=mask)
        first = torch.tensor(last)[:, None]
        shifted = shifted_right(tokens, mask, first)
        given = model(
            decoder_input_ids=shifted,
            decoder_attention_mask=mask,
            input_ids=tokens,
            attention_mask=mask,
        )
    assert torch.equal(out.last_hidden_state, given.last_hidden_state)
    where = [2, 0] if mask is not None else [0, 0]
    assert shifted[[0, 1], where].tolist() == last
    assert shifted[0, 3:].tolist() == [5, 6, 7] and shifted[1, 1:3].tolist() == [4, 3]


def test_several_heads_on_one_body():
    model = replace(
        tiny.encoder(1),
        heads=(
            spec.HeadSpec(
                name="pooler",
                pooling="first",
                transform=spec.TransformSpec(width=32, activation="tanh"),
            ),
            spec.HeadSpec(name="topic", pooling="first", num_outputs=4),
            spec.HeadSpec(name="tag", num_outputs=9),
        ),
    )
    out = tiny.transformer(model)(tiny.tokens(2, 5))
    assert {name: tuple(t.shape) for name, t in out.head_outputs.items()} == {
        "pooler": (2, 32),
        "topic": (2, 4),
        "tag": (2, 5, 9),
    }
    assert out.logits is out.head_outputs["topic"]


def test_rival_texts_give_one_number_each():
    head = spec.HeadSpec(name="choose", pooling="first", num_outputs=1, multiple_choice=True)
    _, out = run(head, tokens=tiny.tokens(2, 3, 5))
    assert out.logits.shape == (2, 3) and out.last_hidden_state.shape == (2, 3, 5, 32)


def test_readout_is_the_logit_lens():
    from glassformer.core import ActivationCapture

    model = tiny.transformer(tiny.decoder(3))
    seen = ActivationCapture("*.resid_post")
    with torch.no_grad():
        out = model(tiny.tokens(2, 6), tap=seen)
        last = model.readout(seen["decoder.blocks.2.resid_post"])
        first = model.readout(seen["decoder.blocks.0.resid_post"])
    assert torch.equal(last, out.logits) and not torch.allclose(first, out.logits)


def test_readout_without_a_head_over_positions_is_refused():
    model = replace(
        tiny.encoder(1), heads=(spec.HeadSpec(name="h", pooling="first", num_outputs=2),)
    )
    with pytest.raises(GlassformerError, match="no head that reads every position"):
        tiny.transformer(model).readout(torch.zeros(1, 2, 32))


def test_auxiliary_heads_are_computed_when_asked_and_read_their_layer():
    from glassformer.core import ActivationCapture

    model = tiny.decoder(4)
    lm = model.heads[0]
    inner = (replace(lm, name=f"layer{depth}", depth=depth) for depth in range(3))
    model = replace(model, heads=(lm, replace(lm, name="further", prediction_offset=2), *inner))
    transformer, tokens = tiny.transformer(model), tiny.tokens(2, 9)
    seen = ActivationCapture("*.resid_post")
    with torch.no_grad():
        plain, full = transformer(tokens), transformer(tokens, auxiliary_heads=True, tap=seen)
        assert set(plain.head_outputs) == {"lm"} and set(full.head_outputs) == {
            h.name for h in model.heads
        }
        assert torch.equal(plain.logits, full.logits)
        for depth in range(3):
            expected = transformer.heads[f"layer{depth}"].out(
                seen[f"decoder.blocks.{depth}.resid_post"]
            )
            assert torch.allclose(full.head_outputs[f"layer{depth}"], expected, atol=1e-6)


def test_without_a_mask_the_first_slot_is_read_whatever_its_token():
    """As the references do; the padding token may begin a text."""
    tokens = torch.tensor([[0, 3, 4], [3, 0, 0]])
    head, out = run(spec.HeadSpec(name="h", pooling="first", num_outputs=3), tokens)
    assert torch.allclose(out.logits, head.out(out.last_hidden_state[:, 0]), atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "max", "concat"])
def test_a_text_of_nothing_but_padding_gives_finite_numbers(pooling):
    tokens = torch.tensor([[0, 0, 0], [3, 4, 0]])
    _, out = run(spec.HeadSpec(name="h", pooling=pooling, num_outputs=3), tokens)
    assert out.logits.isfinite().all()
