from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch

from glassformer import GlassformerError, spec

MASK = torch.tensor(
    [[False, False, True, True, True, True], [True, True, True, False, False, False]]
)


def run(head: spec.Head, tokens=None, **given):
    model = replace(tiny.encoder(1), heads=(head,), tokens=spec.SpecialTokens(eos=7, pad=0))
    net = tiny.net(model)
    with torch.no_grad():
        out = net(tiny.tokens(2, 6) if tokens is None else tokens, **given)
    return net.heads[head.name], out


@pytest.mark.parametrize(
    ("pick", "slots"), [("first", (2, 0)), ("last", (5, 2))], ids=["first", "last"]
)
def test_pick_one_real_token(pick, slots):
    head, out = run(spec.Head(name="h", pick=pick, outputs=3), mask=MASK)
    expected = torch.stack([out.hidden[row, slot] for row, slot in enumerate(slots)])
    assert torch.allclose(out.logits, head.out(expected), atol=1e-6)


def test_mean_of_the_real_tokens():
    head, out = run(spec.Head(name="h", pick="mean", outputs=3), mask=MASK)
    expected = torch.stack([out.hidden[row, MASK[row]].mean(0) for row in range(2)])
    assert torch.allclose(out.logits, head.out(expected), atol=1e-6)


def test_the_last_end_of_text():
    tokens = torch.tensor([[7, 1, 2, 7, 3, 4], [1, 2, 3, 4, 5, 7]])
    head, out = run(spec.Head(name="h", pick="eos", outputs=3), tokens=tokens)
    assert torch.allclose(out.logits, head.out(out.hidden[[0, 1], [3, 5]]), atol=1e-6)


def test_a_text_without_an_end_is_refused():
    tokens = torch.tensor([[1, 1, 2, 7, 3, 4], [1, 2, 3, 4, 5, 6]])
    with pytest.raises(GlassformerError, match=r"end-of-text token \(id 7\)"):
        run(spec.Head(name="h", pick="eos", outputs=3), tokens=tokens)


def test_where_to_read_can_be_given():
    head, out = run(spec.Head(name="h", pick="last", outputs=3), at=torch.tensor([1, 4]))
    assert torch.allclose(out.logits, head.out(out.hidden[[0, 1], [1, 4]]), atol=1e-6)


def test_transform_then_projection():
    transform = spec.Transform(width=12, activation="tanh", norm=spec.Norm())
    head, out = run(spec.Head(name="h", transform=transform, outputs=3, scale=0.5))
    inner = head.transform.norm(torch.tanh(head.transform.dense(out.hidden * 0.5)))
    assert torch.allclose(out.logits, head.out(inner), atol=1e-6)


def test_several_heads_on_one_body():
    model = replace(
        tiny.encoder(1),
        heads=(
            spec.Head(
                name="pooler", pick="first", transform=spec.Transform(width=32, activation="tanh")
            ),
            spec.Head(name="topic", pick="first", outputs=4),
            spec.Head(name="tag", outputs=9),
        ),
    )
    out = tiny.net(model)(tiny.tokens(2, 5))
    assert {name: tuple(t.shape) for name, t in out.heads.items()} == {
        "pooler": (2, 32),
        "topic": (2, 4),
        "tag": (2, 5, 9),
    }
    assert out.logits is out.heads["topic"]


def test_rival_texts_give_one_number_each():
    head = spec.Head(name="choose", pick="first", outputs=1, choices=True)
    _, out = run(head, tokens=tiny.tokens(2, 3, 5))
    assert out.logits.shape == (2, 3) and out.hidden.shape == (2, 3, 5, 32)


def test_readout_is_the_logit_lens():
    from glassformer.core import Capture

    net = tiny.net(tiny.decoder(3))
    seen = Capture("*.resid_post")
    with torch.no_grad():
        out = net(tiny.tokens(2, 6), tap=seen)
        last = net.readout(seen["decoder.blocks.2.resid_post"])
        first = net.readout(seen["decoder.blocks.0.resid_post"])
    assert torch.equal(last, out.logits) and not torch.allclose(first, out.logits)


def test_readout_without_a_head_over_positions_is_refused():
    model = replace(tiny.encoder(1), heads=(spec.Head(name="h", pick="first", outputs=2),))
    with pytest.raises(GlassformerError, match="no head that reads every position"):
        tiny.net(model).readout(torch.zeros(1, 2, 32))
