"""GPT-2 without biases, as trained by nanoGPT: the reference reads it with zero biases."""

from __future__ import annotations

import torch
import transformers

import glassformer as gf

SMALL = {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 60, "n_positions": 50}


def test_without_biases(tmp_path):
    model = gf.create("gpt2", seed=3, bias=False, bos_token_id=0, eos_token_id=0, **SMALL)
    assert not [name for name, _ in model.named_parameters() if name.endswith("bias")]
    tokens = torch.randint(60, (2, 40), generator=torch.Generator().manual_seed(0))
    model.save(tmp_path)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        logits = model(tokens).logits
        assert torch.allclose(logits, theirs(tokens).logits, atol=1e-5)
        assert torch.equal(gf.load(tmp_path)(tokens).logits, logits)
