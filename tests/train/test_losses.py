"""The losses against sums that are written out."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import tiny
import torch

from glassformer import GlassformerError, spec
from glassformer.core import Output
from glassformer.train.losses import language_model_loss

LAYERS = 4
LM = spec.Head(name="lm", outputs=3)
MODEL = replace(
    tiny.decoder(LAYERS),
    heads=(
        LM,
        replace(LM, name="further", ahead=2, weight=0.5),
        *(replace(LM, name=f"layer{depth}", depth=depth) for depth in range(LAYERS - 1)),
    ),
)
TOKENS = torch.tensor([[0, 1, 2, 1]])


def says(*rows: tuple[float, float, float]) -> torch.Tensor:
    """Logits of one text from the shares that a head gives to the three tokens."""
    return torch.tensor(rows).log()[None]


EVEN = says(*[(1 / 3, 1 / 3, 1 / 3)] * 4)
NEXT = says((0.5, 0.25, 0.25), (0.2, 0.2, 0.6), (0.1, 0.8, 0.1), (1 / 3, 1 / 3, 1 / 3))
FURTHER = says((0.1, 0.5, 0.4), (0.5, 0.25, 0.25), (0.8, 0.1, 0.1), (0.8, 0.1, 0.1))


def output(**heads: torch.Tensor) -> Output:
    said = {head.name: EVEN for head in MODEL.heads} | heads
    return Output(torch.zeros(1, 4, 32), said["lm"], said)


def test_by_hand():
    """The next tokens are 1, 2, 1; those after them 2, 1."""
    loss = language_model_loss(MODEL, output(lm=NEXT, further=FURTHER), TOKENS)
    lm = -(math.log(0.25) + math.log(0.6) + math.log(0.8)) / 3
    further = -(math.log(0.4) + math.log(0.25)) / 2
    assert float(loss.parts["lm"]) == pytest.approx(lm)
    assert float(loss.parts["further"]) == pytest.approx(further)
    assert all(float(loss.parts[f"layer{d}"]) == pytest.approx(math.log(3)) for d in range(3))
    assert float(loss.total) == pytest.approx(lm + 0.5 * further + 3 * math.log(3))


def test_padding_is_neither_read_nor_predicted():
    mask = torch.tensor([[False, True, True, True]])
    loss = language_model_loss(MODEL, output(lm=NEXT, further=FURTHER), TOKENS, mask)
    assert float(loss.parts["lm"]) == pytest.approx(-(math.log(0.6) + math.log(0.8)) / 2)
    assert float(loss.parts["further"]) == pytest.approx(-math.log(0.25))


@pytest.mark.parametrize("layer", range(1, LAYERS))
def test_a_layers_share_is_gone_after_l_of_2n(layer):
    name, end = f"layer{layer - 1}", layer / (2 * LAYERS)
    for progress, there in ((0.0, True), (end - 1e-6, True), (end, False), (1.0, False)):
        assert (name in language_model_loss(MODEL, output(), TOKENS, None, progress).parts) == there


def test_in_the_second_half_of_training_only_the_last_layer_is_left():
    said = output()
    for name in [name for name in said.heads if name.startswith("layer")]:
        del said.heads[name]
    loss = language_model_loss(MODEL, said, TOKENS, progress=0.5)
    assert set(loss.parts) == {"lm", "further"}
    with pytest.raises(GlassformerError, match="auxiliary=True"):
        language_model_loss(MODEL, said, TOKENS, progress=0.2)


def test_a_model_that_predicts_no_tokens_is_told_so():
    with pytest.raises(GlassformerError, match="no head that predicts tokens"):
        language_model_loss(replace(MODEL, heads=()), output(), TOKENS)


def test_every_head_learns_from_its_own_loss():
    model = replace(MODEL, heads=tuple(replace(head, outputs=50) for head in MODEL.heads))
    net, tokens = tiny.net(model), tiny.tokens(2, 9)
    language_model_loss(model, net(tokens, auxiliary=True), tokens).total.backward()
    assert all(head.out.weight.grad.abs().sum() > 0 for head in net.heads.values())


def test_auxiliary_heads_are_computed_when_asked_and_read_their_layer():
    from glassformer.core import Capture

    net, tokens = tiny.net(MODEL), tiny.tokens(2, 9)
    seen = Capture("*.resid_post")
    with torch.no_grad():
        plain, full = net(tokens), net(tokens, auxiliary=True, tap=seen)
        assert set(plain.heads) == {"lm"} and set(full.heads) == {h.name for h in MODEL.heads}
        assert torch.equal(plain.logits, full.logits)
        for depth in range(LAYERS - 1):
            expected = net.heads[f"layer{depth}"].out(seen[f"decoder.blocks.{depth}.resid_post"])
            assert torch.allclose(full.heads[f"layer{depth}"], expected, atol=1e-6)
