"""Models that are loaded or used under torch.inference_mode work outside of it, too."""

from __future__ import annotations

import pytest
import torch

import glassformer as gf

TEXT = "To be, or not to be"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A decoder with rotary positions, whose tables are computed at the first use."""
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 8192}
    tokenizer = gf.load("zoo:stories").tokenizer
    place = tmp_path_factory.mktemp("model") / "llama"
    gf.create("llama-7b", seed=1, tokenizer=tokenizer, **sizes, **heads).save(place)
    return place


def train(model: gf.Model) -> float:
    """Takes a step, and returns the loss."""
    ids = torch.tensor([model.tokenizer.encode(TEXT).ids])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    logits = model(ids[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits[0], ids[0, 1:])
    loss.backward()
    optimizer.step()
    return loss.item()


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_a_model_loaded_in_inference_mode_works_outside(folder, quantize):
    plain = gf.load(folder, quantize=quantize)
    with torch.inference_mode():
        model = gf.load(folder, quantize=quantize)
    options = {"max_new_tokens": 4, "do_sample": False}
    assert model.generate(TEXT, **options).tokens == plain.generate(TEXT, **options).tokens
    assert model.score(TEXT).logprobs == plain.score(TEXT).logprobs
    seen = [one.look(TEXT).output.logits for one in (model, plain)]
    assert torch.equal(*seen)
    if quantize is None:
        losses = [train(model) for _ in range(3)]
        assert losses == [train(plain) for _ in range(3)]
        assert losses[2] < losses[0]
        assert model.score(TEXT).logprobs == plain.score(TEXT).logprobs


def test_what_was_computed_in_inference_mode_does_not_keep_a_model_from_training(folder):
    model, plain = gf.load(folder), gf.load(folder)
    with torch.inference_mode():
        model.generate(TEXT, max_new_tokens=4, do_sample=False)
        model.score(TEXT)
        _ = model.look(TEXT).output
    assert train(model) == train(plain)


def test_a_classifier_loaded_in_inference_mode():
    plain = gf.load("zoo:reader")
    with torch.inference_mode():
        model = gf.load("zoo:reader")
    assert model.classify("It is good.", head="sentiment") == plain.classify(
        "It is good.", head="sentiment"
    )


def test_a_model_created_in_inference_mode():
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 50}
    with torch.inference_mode():
        model = gf.create("gpt2", seed=1, **sizes)
    model(torch.tensor([[1, 2, 3]])).logits.sum().backward()
    assert all(one.grad is not None for one in model.parameters())
