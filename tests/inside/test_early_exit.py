"""Early exit: the model's outputs, also in generation, equal those of the lens at that layer."""

from __future__ import annotations

import pytest
import small
import torch

from glassformer import GlassformerError, inside

TEXT = " ".join(small.WORDS.split()[:5])


@pytest.mark.parametrize("kind", ["decoder", "encoder", "both"])
@pytest.mark.parametrize("trained", [False, True])
def test_it_says_what_the_lens_reads(kind, trained):
    model = {"decoder": small.decoder, "encoder": small.encoder, "both": small.both}[kind]()
    target = {"target": TEXT} if kind == "both" else {}
    texts = {"targets": [TEXT]} if kind == "both" else {}
    lens = (
        inside.tune_lens(model, [TEXT], max_steps=3, learning_rate=0.05, **texts)
        if trained
        else None
    )
    read = model.look(TEXT, **target).lens(tuned=lens)
    for layer, stage in ((None, 0), (0, 2)):
        with inside.early_exit(model, layer, tuned=lens):
            said = model.look(TEXT, **target).logits.array
        found = said.softmax(-1).sort(descending=True)
        torch.testing.assert_close(
            found.values[:, 0], read.best_probability.array[stage, :, 0], atol=1e-5, rtol=1e-5
        )
        assert found.indices[:, 0].tolist() == read.best.array[stage, :, 0].tolist()


def test_it_writes_what_its_own_best_tokens_are():
    model = small.decoder()
    with inside.early_exit(model, 0):
        tokens = model.generate(TEXT, max_new_tokens=4, eos_token_id=[]).tokens
    assert model.tokenizer is not None
    ids = model.tokenizer.encode(TEXT).ids
    for token in tokens:  # without a cache, from the lens
        best = model.look(ids).lens().best.array[2, -1, 0]
        assert token == int(best)
        ids = [*ids, token]
    assert model.generate(TEXT, max_new_tokens=4, eos_token_id=[]).tokens != tokens


def test_the_last_layer_changes_nothing():
    model = small.decoder()
    plain = model.look(TEXT).logits.array
    with inside.early_exit(model, model.spec.last_stack.order[-1]):
        assert torch.equal(model.look(TEXT).logits.array, plain)


def test_a_layer_that_is_not_there():
    with (
        pytest.raises(GlassformerError, match=r"no stage 'decoder\.blocks\.9\.resid_post'"),
        inside.early_exit(small.decoder(), 9),
    ):
        pass
