"""Variants of presets compute what their papers say, and are saved with their spec."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import glassformer as gf
from glassformer.spec.variants import NAMES

SMALL = {"num_layers": 2, "num_heads": 4, "hidden_size": 32, "vocab_size": 50}
GPT2 = {**SMALL, "context_length": 64}
IDS = torch.arange(20)[None] % 7


@pytest.mark.parametrize(
    "options",
    [
        {"attention": "additive"},
        {"norm": "batch"},
        {"norm": "rms", "norm_placement": "post"},
        {"norm_placement": "sandwich"},
        {"positions": "sinusoidal"},
        {"positions": "t5", "window": 8},
        {"positions": "none", "window": 4, "dilation": 2},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_a_variant_is_saved_with_its_spec(tmp_path, options):
    model = gf.create("gpt2", seed=1, **GPT2, **options)
    model.save(tmp_path / "model")
    loaded = gf.load(tmp_path / "model")
    assert loaded.architecture == "Glassformer" and loaded.spec == model.spec
    assert torch.equal(loaded(IDS).logits, model(IDS).logits)
    plain = gf.create("gpt2", seed=1, **GPT2)
    assert not torch.allclose(model(IDS).logits, plain(IDS).logits)


def test_without_options_the_class_is_the_published_one():
    assert gf.create("gpt2", **GPT2).architecture == "GPT2LMHeadModel"


def test_additive_scores_are_those_of_bahdanau():
    model = gf.create("gpt2", seed=1, **GPT2, attention="additive")
    attention = model.decoder.blocks[0].attention
    with torch.no_grad():
        attention.attend.direction.normal_()
    taps = gf.ActivationCapture(*(f"decoder.blocks.0.{name}" for name in ("q", "k", "pattern")))
    model(IDS, tap=taps)
    q, k, pattern = (tensor[0] for tensor in taps.tensors.values())
    sums = torch.tanh(q[:, :, None] + k[:, None])  # [head, query, key, dim]
    scores = torch.einsum("hqkd,hd->hqk", sums, attention.attend.direction.detach())
    causal = torch.ones(20, 20, dtype=torch.bool).tril()
    expected = scores.masked_fill(~causal, -math.inf).softmax(-1)
    torch.testing.assert_close(pattern, expected, atol=1e-5, rtol=0)


def test_post_norm_has_no_final_norm_and_pre_norm_has_one():
    post = gf.create("gpt2", **GPT2, norm_placement="post")
    assert post.spec.decoder.final_norm is None and not hasattr(post.decoder, "final_norm")
    hidden = post(IDS).last_hidden_state
    torch.testing.assert_close(
        hidden, F.layer_norm(hidden, (32,), eps=1e-5), atol=1e-4, rtol=0
    )  # the last operation is a norm
    pre = gf.create("bert-base", **SMALL, norm_placement="pre")
    assert pre.spec.encoder.final_norm == pre.spec.encoder.blocks[0].norm


@pytest.mark.parametrize(("preset", "direction"), [("gpt2", "causal"), ("bert-base", "both")])
def test_windows_and_dilation(preset, direction):
    model = gf.create(preset, **SMALL, window=4, dilation=2)
    stack = "decoder" if direction == "causal" else "encoder"
    name = f"{stack}.blocks.0.pattern"
    taps = gf.ActivationCapture(name)
    model(IDS, tap=taps)
    seen = (taps.tensors[name][0, 0, 10] > 0).nonzero().flatten().tolist()
    assert seen == ([4, 6, 8, 10] if direction == "causal" else [6, 8, 10, 12, 14])


def test_sinusoids_alternate_or_come_in_halves():
    pairs, halves = (
        gf.create("gpt2", **GPT2, positions=name).decoder.embed.position.weight[5]
        for name in ("sinusoidal", "sinusoidal-halves")
    )
    angles = 5 / 10_000 ** (torch.arange(16) / 16)
    torch.testing.assert_close(pairs[0::2], angles.sin())
    torch.testing.assert_close(pairs[1::2], angles.cos())
    torch.testing.assert_close(halves, torch.cat((pairs[0::2], pairs[1::2])))


def test_without_positions_the_order_of_earlier_tokens_has_no_effect():
    model = gf.create("gpt2", seed=1, num_layers=1, num_heads=4, hidden_size=32, vocab_size=50,
                      positions="none")  # fmt: skip
    first, second = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[3, 1, 2, 4]])
    torch.testing.assert_close(model(first).logits[:, -1], model(second).logits[:, -1])


def test_a_recipe_has_the_same_options(tmp_path):
    (tmp_path / "a.txt").write_text("to be or not to be, that is the question. " * 20)
    options = {"attention": "additive", "norm": "batch", "norm_placement": "post",
               "positions": "rotary", "window": 8}  # fmt: skip
    sizes = {name: value for name, value in GPT2.items() if name != "vocab_size"}
    run = gf.train(
        {
            "model": {"preset": "gpt2", **sizes, **options},
            "tokenizer": {"type": "char"},
            "data": {"train": str(tmp_path / "a.txt")},
            "train": {"max_steps": 2, "batch_size": 2},
            "run": {"out": str(tmp_path / "run")},
        },
        progress=False,
    )
    block = run.load().spec.decoder.blocks[0]
    found = (block.attention.score, block.norm.kind, block.placement, block.position.name)
    assert found == ("additive", "batch", "post", "rotary") and block.pattern.left == 7


@pytest.mark.parametrize(
    ("preset", "options", "message"),
    [
        ("gpt2", {"attention": "sum"}, "attention must be one of dot, additive, not 'sum'"),
        ("gpt2", {"window": 0}, "window of a Variant is 0; it must be at least 1"),
        ("gpt2", {"dilation": 1.5}, "dilation must be a whole number, not 1.5"),
        ("gpt2", {"block_sparse": 4}, "block_sparse is for models that attend to both sides"),
        ("bert-base", {"block_sparse": 4, "window": 3}, "leave out window and dilation"),
        ("lstm", {"norm": "rms"}, "has no attention layers; leave out norm"),
        ("pythia-70m", {"norm_placement": "post"}, "need the norm before them"),
    ],
)
def test_options_that_do_not_fit_are_refused(preset, options, message):
    with pytest.raises(gf.ConfigError, match=message):
        gf.create(preset, **options)


def test_a_key_of_the_family_is_not_an_option():
    assert "window" in NAMES
    assert gf.create("gpt3-small", **GPT2, window=5).architecture != "Glassformer"
