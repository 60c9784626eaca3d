"""ULMFiT's files as fastai writes them, and the step from a language model to a classifier."""

from __future__ import annotations

import json

import pytest
import reference
import torch

import glassformer as gf

CONFIG = {"vocab_size": 40, "emb_sz": 8, "n_hid": 12, "n_layers": 2, "model_type": "awd-lstm"}
TOKENS = torch.randint(5, 40, (3, 7), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def written(tmp_path):
    """A language model, and its folder as fastai 1 would have written it: the embedding and the
    matrix from state to state twice, the latter once as dropout had left it."""
    model = reference.make(CONFIG, "AwdLstmForCausalLM", seed=0)
    tensors = dict(model.state_dict())
    tensors["0.encoder_dp.emb.weight"] = tensors["0.encoder.weight"]
    for layer in range(2):
        raw = tensors[f"0.rnns.{layer}.weight_hh_l0_raw"]
        tensors[f"0.rnns.{layer}.module.weight_hh_l0"] = torch.zeros_like(raw)
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return model, tmp_path


def test_a_file_of_fastai_1(written):
    theirs, folder = written
    ours = gf.load(folder)
    assert ours.architecture == "AwdLstmForCausalLM"
    assert set(ours.load_report.dropped) == {f"0.rnns.{i}.module.weight_hh_l0" for i in range(2)}
    with torch.no_grad():
        expected = theirs(TOKENS, torch.ones_like(TOKENS))["logits"]
        assert torch.allclose(ours(TOKENS).logits, expected, atol=1e-6)


def test_its_body_becomes_a_classifiers(written):
    theirs, folder = written
    kind = "AwdLstmForSequenceClassification"
    ours = gf.load(
        folder,
        architecture=kind,
        init_missing="1.layers",
        ignore_unexpected="1.decoder",
        labels=["bad", "good", "odd"],
    )
    with torch.no_grad():
        out = ours(TOKENS)
        expected = theirs.get_submodule("0")(TOKENS, torch.ones_like(TOKENS))
    assert torch.allclose(out.last_hidden_state, expected, atol=1e-6) and out.logits.shape == (3, 3)
    assert all(name.startswith("heads.classify.") for name in ours.load_report.made)


def test_a_fresh_one_starts_as_fastais():
    model = gf.create("awd-lstm", vocab_size=200)
    assert model.spec.last_stack.widths == (400, 1152, 1152, 400)
    table, states = model.decoder.embed.token.weight, model.decoder.blocks[0].ahead.weight_state
    assert 0.099 < table.abs().max() <= 0.1
    assert 0.99 < states.abs().max() * 1152**0.5 <= 1.0
    assert model.heads["lm"].out.weight is table and not model.heads["lm"].out.bias.any()
