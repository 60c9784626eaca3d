"""Comparison of two models on one text: changed parts are found, and no others."""

from __future__ import annotations

import pytest
import small
import torch

import glassformer as gf
from glassformer import adapters

TEXT = "time flies like an arrow"


def test_a_head_that_moved_is_found():
    a, b = small.decoder(), small.decoder()
    with torch.no_grad():
        b.decoder.blocks[1].attention.qkv.weight[16:24] *= -2  # the queries of head 2
    found = gf.compare(a, b, TEXT)
    side = found.sides["decoder"]
    assert found.moved(1)[0][:3] == ("decoder", 1, 2)
    assert torch.equal(side.pattern.array[0], torch.zeros(4))
    assert torch.equal(side.residual_change.array[0], torch.zeros(()))
    assert torch.allclose(side.head_cosine.array[0], torch.ones(4))
    others = side.pattern.array[1, [0, 1, 3]]
    assert torch.equal(others, torch.zeros(3)) and float(side.residual_change.array[1]) > 0
    was, now = (model.look(TEXT).attention[1, 2].array for model in (a, b))
    assert float(side.pattern.array[1, 2]) == pytest.approx(float((was - now).abs().sum() / 10))
    middle = (was + now) / 2
    bits = sum((torch.xlogy(p, p / middle)).nan_to_num().sum() for p in (was, now)) / 10
    assert float(side.divergence.array[1, 2]) == pytest.approx(float(bits) / 0.6931472, abs=1e-5)
    p, q = (model.look(TEXT).logits.array.softmax(-1) for model in (a, b))
    want = (p * (p / q).log()).sum(-1)
    assert torch.allclose(found.logit_divergence.array, want, atol=1e-5)
    mover = found.movers(position=-1, count=1)[0]
    assert abs(mover.after - mover.before) == pytest.approx(
        float((p - q)[-1].abs().max()), abs=1e-6
    )


def test_a_model_beside_itself_is_its_adapter():
    model = small.decoder()
    with pytest.raises(gf.GlassformerError, match="no active adapter"):
        gf.compare(model, model, TEXT)
    plain = model.look(TEXT).logits.array
    model.adapters.add(adapters.LoRA(rank=2, target_modules=("c_attn",)))
    with torch.no_grad():
        for tensor in model.parameters():
            if tensor.requires_grad:
                tensor += 0.3
    found = gf.compare(model, model, TEXT)
    assert torch.equal(found.before.logits.array, plain)
    assert torch.equal(found.after.logits.array, model.look(TEXT).logits.array)
    assert found.moved(1)[0][3] > 1e-3


def test_all_sides_of_an_encoder_decoder():
    found = gf.compare(small.both(0), small.both(1), TEXT, "fruit flies")
    assert list(found.sides) == ["encoder", "decoder", "cross"]
    assert found.sides["cross"].pattern.shape == (2, 4)
    assert found.sides["cross"].residual_change is None
    classified = gf.compare(*(small.encoder("SequenceClassification", s) for s in (0, 1)), TEXT)
    assert {one.text for one in classified.movers()} == {"bad", "good", "odd"}


def test_a_fine_tune_with_another_head_is_compared_all_the_same():
    """A masked-LM model, and a classifier made of it: bodies are compared, what they say is not."""
    base, tuned = small.encoder(), small.encoder("SequenceClassification")
    tuned.encoder.load_state_dict(base.encoder.state_dict())
    with torch.no_grad():
        tuned.encoder.blocks[1].attention.qkv.weight[:8] *= -2
    found = gf.compare(base, tuned, TEXT)
    assert found.moved(1)[0][:3] == ("encoder", 1, 0) and found.logit_divergence is None
    assert "layer 1 head 0" in found._repr_html_()
    with pytest.raises(gf.GlassformerError, match="have different outputs"):
        found.movers()


def test_what_cannot_be_compared_is_said():
    with pytest.raises(gf.GlassformerError, match="compare needs loaded models"):
        gf.compare("a folder", "another", TEXT)
    with pytest.raises(gf.GlassformerError, match="different tokenizers"):
        gf.compare(small.decoder(), small.encoder(), TEXT)
    with pytest.raises(gf.GlassformerError, match="differ in layers, heads or width"):
        gf.compare(small.decoder(), small.decoder(n_layer=2), TEXT)
