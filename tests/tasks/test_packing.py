"""Packed texts have the same results as texts in separate rows."""

from __future__ import annotations

import pytest
import torch

import glassformer as gf
from glassformer.native.attention import library
from glassformer.tasks.packing import can_pack, head_logits, states_of_texts

SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
BERT = {**SIZES, "intermediate_size": 64, "vocab_size": 50}
MODELS = {
    "bert-base": (BERT, "BertForSequenceClassification"),
    "roberta-base": (BERT, "RobertaForSequenceClassification"),
    "electra-small": ({**BERT, "embedding_size": 32}, "ElectraForTokenClassification"),
    "distilbert": (
        {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 50},
        "DistilBertForSequenceClassification",
    ),
    "llama-7b": (BERT, "LlamaForSequenceClassification"),
    "gpt2": (
        {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 50},
        "GPT2ForTokenClassification",
    ),
}
APART = {  # by a bias of positions, a pattern, segments that are scored, a second stack
    "deberta-base": BERT,
    "t5-small": {"d_model": 64, "num_heads": 4, "d_kv": 16, "num_layers": 1, "vocab_size": 50},
    "xlnet-base": {"d_model": 64, "n_layer": 1, "n_head": 4, "d_inner": 64, "vocab_size": 50},
    "longformer-base": {**BERT, "attention_window": [4, 4]},
}


@pytest.fixture(autouse=True)
def compiler():
    if library() is None:
        pytest.skip("there is no compiler")


def inputs_of(model, texts: int, longest: int) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    sizes = torch.linspace(1, longest, texts).long()[:, None]
    mask = torch.arange(longest) < sizes
    pad = model.spec.tokens.pad or 0
    tokens = torch.randint(5, 50, mask.shape, generator=draw).where(mask, torch.tensor(pad))
    found = {"input_ids": tokens, "attention_mask": mask}
    if model.spec.last_stack.embed.segments > 1:
        found["token_type_ids"] = (torch.arange(longest) > 4).long().expand(mask.shape).contiguous()
    return found


@pytest.mark.parametrize("preset", MODELS)
@pytest.mark.parametrize("size", [(3, 9), (16, 40)])  # by a mask of texts, by our kernel
def test_as_texts_in_rows(preset, size):
    config, architecture = MODELS[preset]
    torch.manual_seed(0)
    model = gf.create(preset, architectures=[architecture], num_labels=3, **config)
    transformer = model.eval()
    assert can_pack(transformer)
    inputs = inputs_of(model, *size)
    (name,) = (head.name for head in model.spec.heads if head.num_outputs)
    with torch.inference_mode():
        wanted = transformer(**inputs, heads=(name,))
        states, said = states_of_texts(transformer, inputs), head_logits(transformer, inputs, name)
    mask = inputs["attention_mask"]
    torch.testing.assert_close(states[mask], wanted.last_hidden_state[mask], atol=1e-5, rtol=1e-5)
    assert not states[~mask].any()
    right = wanted.head_outputs[name]
    if said.ndim == 3:
        said, right = said[mask], right[mask]
    torch.testing.assert_close(said, right, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("preset", APART)
def test_what_is_not_made_for_it(preset):
    model = gf.create(preset, **APART[preset]).eval()
    assert not can_pack(model)


def test_a_text_that_is_too_long_is_still_refused():
    model = gf.create("bert-base", max_position_embeddings=16, **BERT)
    model.eval()
    inputs = inputs_of(model, 6, 16)
    with torch.inference_mode():
        assert states_of_texts(model, inputs).shape[:2] == (6, 16)  # of 51 tokens together
        with pytest.raises(
            gf.GlassformerError, match="17 tokens and the model's positions end at 16"
        ):
            states_of_texts(model, inputs_of(model, 6, 17))
