"""Blocks and stacks, compared with a manual composition of their parts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch
import torch.nn.functional as F

from glassformer import GlassformerError, spec
from glassformer.core import ActivationCapture


def parts(model, depth=0):
    block = model.encoder.blocks[depth]
    seen = ActivationCapture()
    with torch.no_grad():
        model(tiny.tokens(2, 5), tap=seen)
    at = f"encoder.blocks.{depth}."
    return block, {
        name.removeprefix(at): t for name, t in seen.tensors.items() if name.startswith(at)
    }


def test_a_block_whose_attention_reads_the_stream_as_it_is():
    block, seen = parts(tiny.transformer(tiny.encoder(1, attention_normed=False)))
    assert not list(block.attention_norm.parameters())
    v = block.attention.qkv(seen["resid_pre"]).split(block.attention.qkv.parts, -1)[2]
    assert torch.allclose(seen["v"].transpose(1, 2).flatten(2), v, atol=1e-6)
    feed = block.ffn.down(F.gelu(block.ffn.up(block.ffn_norm(seen["resid_mid"]))))
    assert torch.allclose(seen["resid_post"], seen["resid_mid"] + feed, atol=1e-5)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_norm_before_the_part(kind):
    block, seen = parts(tiny.transformer(tiny.encoder(1, norm=spec.NormSpec(kind=kind, eps=1e-3))))
    x = seen["resid_pre"]
    middle = x + seen["attn_out"]
    assert torch.allclose(seen["resid_mid"], middle)
    if kind == "layer":
        normed = (middle - middle.mean(-1, keepdim=True)) / (
            middle.var(-1, unbiased=False, keepdim=True) + 1e-3
        ).sqrt()
    else:
        normed = middle / (middle.square().mean(-1, keepdim=True) + 1e-3).sqrt()
    feed = block.ffn.down(F.gelu(block.ffn.up(normed)))
    assert torch.allclose(seen["resid_post"], middle + feed, atol=1e-5)


def test_norm_after_the_sum():
    block, seen = parts(tiny.transformer(tiny.encoder(1, placement="post")))
    middle = block.attention_norm(seen["resid_pre"] + seen["attn_out"])
    assert torch.allclose(seen["resid_mid"], middle, atol=1e-6)
    assert torch.allclose(seen["resid_post"], block.ffn_norm(middle + seen["ffn_out"]), atol=1e-6)


def test_sandwich():
    block, seen = parts(tiny.transformer(tiny.encoder(1, placement="sandwich")))
    middle = seen["resid_pre"] + block.attention_norm_out(seen["attn_out"])
    assert torch.allclose(seen["resid_mid"], middle, atol=1e-6)
    assert torch.allclose(
        seen["resid_post"], middle + block.ffn_norm_out(seen["ffn_out"]), atol=1e-6
    )


@pytest.mark.parametrize("residual", ["parallel", "parallel_shared_norm"])
def test_parallel_parts_read_the_same_stream(residual):
    block, seen = parts(tiny.transformer(tiny.encoder(1, residual=residual)))
    x = seen["resid_pre"]
    norm = block.attention_norm if residual == "parallel_shared_norm" else block.ffn_norm
    feed = block.ffn.down(F.gelu(block.ffn.up(norm(x))))
    assert torch.allclose(seen["resid_post"], x + seen["attn_out"] + feed, atol=1e-5)
    assert hasattr(block, "ffn_norm") == (residual == "parallel")


def test_parallel_parts_with_the_norm_after_are_refused():
    with pytest.raises(GlassformerError, match="Parallel"):
        replace(tiny.BLOCK, residual="parallel", placement="post")


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
@pytest.mark.parametrize("gated", [False, True])
def test_feed_forward(activation, gated):
    ffn = spec.FeedForwardSpec(width=48, activation=activation, gated=gated, bias=False)
    block, seen = parts(tiny.transformer(tiny.encoder(1, ffn=ffn)))
    functions = {
        "relu": torch.relu,
        "gelu": lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)),
        "gelu_tanh": lambda x: (
            0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))
        ),
        "silu": lambda x: x / (1 + torch.exp(-x)),
    }
    both = block.ffn.up(block.ffn_norm(seen["resid_mid"]))
    hidden = functions[activation](both[..., :48]) * (both[..., 48:] if gated else 1)
    assert torch.allclose(seen["ffn_out"], hidden @ block.ffn.down.weight.T, atol=1e-5)


def test_batch_norm_learns_its_statistics_in_training_alone():
    model = tiny.transformer(tiny.encoder(1, norm=spec.NormSpec(kind="batch")))
    norm = model.encoder.blocks[0].attention_norm.norm
    before = norm.running_mean.clone()
    model(tiny.tokens(4, 6))
    assert torch.equal(norm.running_mean, before)
    seen = ActivationCapture("*.0.resid_pre")
    model.train()
    model(tiny.tokens(4, 6), tap=seen)
    rows = seen["encoder.blocks.0.resid_pre"].flatten(0, 1)
    assert torch.allclose(norm.running_mean, 0.9 * before + 0.1 * rows.mean(0), atol=1e-6)


def test_a_shared_layer_runs_as_often_as_the_order_says():
    once = tiny.encoder(1)
    thrice = replace(once, encoder=replace(once.encoder, order=(0, 0, 0)))
    model = tiny.transformer(thrice)
    seen = ActivationCapture("*.resid_p*")
    with torch.no_grad():
        model(tiny.tokens(1, 4), tap=seen)
        x = seen["encoder.blocks.0.resid_pre"]
        copies = replace(
            once, encoder=replace(once.encoder, blocks=once.encoder.blocks * 3, order=())
        )
        unrolled = tiny.transformer(copies)
        for block in unrolled.encoder.blocks:
            block.load_state_dict(model.encoder.blocks[0].state_dict())
        again = ActivationCapture("*.resid_post")
        unrolled(tiny.tokens(1, 4), tap=again)
    assert len(model.encoder.blocks) == 1
    assert set(seen.tensors) == {
        f"encoder.blocks.{i}.resid_{p}" for i in range(3) for p in ("pre", "post")
    }
    assert not torch.equal(x, seen["encoder.blocks.2.resid_post"])
    for i in range(3):
        name = f"encoder.blocks.{i}.resid_post"
        assert torch.equal(seen[name], again[name])


def test_an_order_beyond_the_layers_is_refused():
    with pytest.raises(GlassformerError, match="names one beyond"):
        replace(tiny.stack(2), order=(0, 2))


def test_dropout_acts_in_training_alone():
    model = tiny.transformer(tiny.encoder(3, dropout=0.5))
    tokens = tiny.tokens(2, 5)
    assert torch.equal(model(tokens).logits, model(tokens).logits)
    model.train()
    torch.manual_seed(0)
    assert not torch.equal(model(tokens).logits, model(tokens).logits)


def test_layer_dropout_skips_whole_layers_in_training_alone():
    model = tiny.encoder(40)
    transformer = tiny.transformer(
        replace(model, encoder=replace(model.encoder, layer_dropout=0.5))
    )
    ran: list[list[str]] = []
    torch.manual_seed(0)
    for training in (False, True, True):
        seen = ActivationCapture("*.resid_post")
        with torch.no_grad():
            transformer.train(training)(tiny.tokens(1, 3), tap=seen)
        ran.append(list(seen.tensors))
    assert len(ran[0]) == 40 and 8 < len(ran[1]) < 32 and ran[1] != ran[2]
