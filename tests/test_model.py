"""The interface of `Model`."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import glassformer as gf
from glassformer.core import Permutation
from glassformer.core.input_rules import input_name
from glassformer.families import classes_of, families, spec_from_config
from glassformer.spec import AudioFramesSpec, InitSpec, PatchEmbeddingSpec


def test_the_built_in_model_reads_and_predicts():
    model = gf.load("shakespeare")
    ids = model.tokenizer.encode("ROMEO:\nIs the day so you").ids
    with torch.no_grad():
        out = model(torch.tensor([ids]))
    assert model.tokenizer.decode([int(out.logits[0, -1].argmax())]) == "ng"
    assert out.last_hidden_state.shape == (1, len(ids), 192)


def test_the_same_seed_gives_the_same_weights():
    settings = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 50}
    one, same, other = (gf.create("gpt2", seed=seed, **settings) for seed in (1, 1, 2))
    state = one.state_dict()
    assert all(torch.equal(t, same.state_dict()[n]) for n, t in state.items())
    assert not torch.equal(state["decoder.embed.token.weight"], other.decoder.embed.token.weight)


def test_first_weights_are_drawn_as_the_papers_say():
    gpt2 = gf.create("gpt2", n_layer=8, n_embd=256, n_head=4, vocab_size=500)
    block = gpt2.decoder.blocks[3]
    assert float(block.attention.qkv.weight.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert float(block.ffn.down.weight.detach().std()) == pytest.approx(0.02 / 4, rel=0.05)
    assert torch.all(block.attention_norm.weight == 1) and torch.all(block.ffn.up.bias == 0)
    first = gf.create("transformer-base", vocab_size=1000)
    assert float(first.encoder.embed.token.weight.detach().std()) == pytest.approx(
        512**-0.5, rel=0.05
    )
    up = first.encoder.blocks[0].ffn.up.weight
    assert float(up.detach().abs().max()) <= (6 / (512 + 2048)) ** 0.5
    t5 = gf.create("t5-small", vocab_size=500, num_layers=1)
    assert float(t5.encoder.blocks[0].ffn.down.weight.detach().std()) == pytest.approx(
        2048**-0.5, rel=0.05
    )


def test_the_transformer_of_2017_in_base_and_big():
    base, big = (gf.create(name) for name in ("transformer-base", "transformer-big"))
    count = {model: sum(p.numel() for p in model.parameters()) for model in (base, big)}
    assert 60e6 < count[base] < 66e6 and 205e6 < count[big] < 215e6
    assert base.encoder.embed.token.weight is base.decoder.embed.token.weight
    assert base.encoder.embed.token.weight is base.heads["lm"].out.weight
    assert base.spec.encoder.embed.scale == 512**0.5


@pytest.mark.parametrize("model_type", [t for t, family in families().items() if family.TINY])
def test_every_family_trains(model_type):
    """The loss falls within a few steps, and gradients reach every parameter."""
    family = families()[model_type]
    config = {**family.TINY[0], "model_type": model_type}
    specs = [spec_from_config(config, name) for name in classes_of(family, model_type)]
    ends = [s for s in specs if s.heads and s.heads[0].name in ("lm", "answer", "classify")]
    spec = min(ends, key=lambda s: s.heads[0].name != "lm")
    model = gf.create(replace(spec, init=InitSpec(std=0.05))).train()
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(5, 60, (4, 9), generator=generator)
    given = {"decoder_input_ids": tokens} if spec.is_encoder_decoder else {}
    wanted = tokens
    if spec.heads[0].name == "answer":
        given["memory_tokens"], wanted = tokens[:, None].repeat(1, 3, 1), tokens[:, 0]
    embed = (spec.encoder or spec.last_stack).embed
    given[input_name(spec)] = tokens
    if isinstance(embed, AudioFramesSpec):
        given["input_features"] = torch.randn(4, embed.num_mel_bins, 20, generator=generator)
    elif isinstance(embed, PatchEmbeddingSpec):
        given["pixel_values"] = torch.randn(
            4, embed.channels, *embed.image_size, generator=generator
        )
        wanted = torch.tensor([0, 1, 1, 0])
    if spec.last_stack.embed.languages:
        given["language_ids"] = tokens % spec.last_stack.embed.languages
    if spec.last_stack.scores_segments:
        given["token_type_ids"] = tokens % 2
    if spec.last_stack.embed.has_query_stream:  # each token is asked for, and hidden from who asks
        hidden, every = torch.eye(9).bool(), torch.arange(9)
        given["permutation"] = Permutation(hidden.expand(4, -1, -1), every.expand(4, -1))
    if any(
        block.attention.separate_global_projections for block in spec.last_stack.attention_blocks
    ):
        given["global_attention_mask"] = torch.arange(9).expand(4, -1) == 3
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(0)
    losses = []
    for _ in range(25):
        logits = model(**given).head_outputs[spec.heads[0].name]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    others = tuple(f"heads.{head.name}" for head in spec.heads[1:])
    idle = [n for n, p in model.named_parameters() if p.grad is None and not n.startswith(others)]
    assert idle == []


def test_an_encoder_decoder_without_a_source_says_what_it_needs():
    model = gf.create("transformer-base", vocab_size=50, d_model=16, encoder_ffn_dim=8)
    with pytest.raises(gf.GlassformerError, match="decoder_input_ids"):
        model(torch.zeros(1, 3, dtype=torch.long))


def test_settings_of_a_preset_are_checked():
    with pytest.raises(gf.GlassformerError, match=r"n_layers \(did you mean 'n_layer'\?\)"):
        gf.create("gpt2", n_layers=3)
    with pytest.raises(gf.GlassformerError, match="no preset 'gpt5'"):
        gf.create("gpt5")


def test_the_import_is_light():
    """Nothing beyond the four libraries is imported with the package."""
    import subprocess
    import sys

    script = (
        "import sys, glassformer\n"
        "heavy = {'typer', 'rich', 'transformers', 'sacremoses', 'sympy.printing'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
