"""XLM's answer search with several starts and ends, compared with the reference's."""

from __future__ import annotations

import reference
import torch
from cases import TOLERANCE

import glassformer as gf


def test_the_same_starts_and_ends_as_the_reference(tmp_path):
    config = {
        "model_type": "xlm",
        "emb_dim": 32,
        "n_layers": 2,
        "n_heads": 4,
        "vocab_size": 99,
        "start_n_top": 4,
        "end_n_top": 3,
    }
    model = reference.make(config, "XLMForQuestionAnswering", seed=0)
    reference.save(model, tmp_path)
    tokens = torch.randint(5, 99, (3, 14), generator=torch.Generator().manual_seed(0))
    mask = torch.arange(14) < torch.tensor([[14], [9], [6]])
    inputs = {
        "input_ids": tokens,
        "attention_mask": mask.long(),
        "p_mask": (~mask).float(),
        "cls_index": mask.sum(-1) - 1,
    }
    theirs = reference.run(model, inputs)
    with torch.no_grad():
        ours = gf.load(tmp_path)(tokens, attention_mask=mask).head_outputs
    assert set(theirs) == {
        f"answer.{n}" for n in ("start", "start_at", "end", "end_at", "possible")
    }
    for name, value in theirs.items():
        assert ours[name].shape == value.shape
        assert float((ours[name] - value).abs().max()) <= TOLERANCE, name
