"""Attributions to input tokens, compared with explicit computations."""

from __future__ import annotations

import pytest
import small
import torch
from family_models import FAMILIES, case_of, look

import glassformer as gf
from glassformer.core.input_rules import text_ids

TEXT = "time flies like an arrow"
SOME = ["BertForMaskedLM", "T5ForConditionalGeneration", "LlamaForCausalLM", "XLNetLMHeadModel"]


def case(architecture):
    return case_of(next(n for n in FAMILIES if n.architecture == architecture))


def test_gradient_x_input_is_the_references():
    """Through the embeddings that transformers takes as inputs_embeds."""
    one = case("LlamaForCausalLM")
    view = look(one)
    embeds = one.reference.model.embed_tokens(text_ids(view.model_inputs.inputs)).detach()
    embeds.requires_grad_()
    one.reference(inputs_embeds=embeds).logits[0, -1, 7].backward()
    want = (embeds * embeds.grad)[0].sum(-1)
    assert torch.allclose(view.gradient_x_input(7).values.array, want.detach(), atol=1e-6)


@pytest.mark.parametrize("architecture", SOME)
def test_integrated_gradients_make_up_the_difference(architecture):
    view = look(case(architecture))
    found = view.integrated_gradients(3, steps=64)
    rough = view.integrated_gradients(3, steps=2)
    assert abs(found.missing) <= 2e-3 * max(1.0, abs(found.difference))
    assert abs(found.missing) <= abs(rough.missing) + 1e-6


def test_the_baseline_is_a_token_and_what_frames_a_text_stays():
    model = small.encoder("SequenceClassification")
    view = model.look(TEXT)
    found = view.integrated_gradients("good", baseline="[MASK]", steps=48)
    assert found.values.array[0] == 0 and found.values.array[-1] == 0  # [CLS], [SEP]
    masked = model.look(" ".join(["[MASK]"] * 5))
    assert found.difference == pytest.approx(
        float(view.logits.array[1] - masked.logits.array[1]), abs=1e-5
    )
    assert abs(found.missing) <= 1e-3
    assert view.integrated_gradients("good", baseline="zero", steps=2).total != found.total


def test_an_encoder_decoder_has_a_number_for_each_source_token():
    view = small.both().look(TEXT, "fruit flies")
    found = view.integrated_gradients(steps=48)
    assert found.source.shape == (7,) and found.values.shape == (4,)
    assert abs(found.missing) <= 2e-3
    assert view.gradient_x_input().source.labels["position"][1] == "time"


def test_steps_show_progress_and_must_be_some():
    view, seen = small.decoder().look(TEXT), []
    view.integrated_gradients(steps=20, progress=seen.append)
    assert seen == [0.4, 0.8, 1.0]
    with pytest.raises(gf.GlassformerError, match="1 or more"):
        view.integrated_gradients(steps=0)


def test_an_edit_is_in_force_while_gradients_are_taken():
    model = small.decoder()
    off = {"kind": "scale", "at": "blocks.*.z", "factor": 0.0}
    found = model.look(TEXT, edits=[off]).gradient_x_input()
    assert torch.equal(found.values.array[:-1], torch.zeros(4))  # nothing comes from other tokens
    assert float(found.values.array[-1].abs()) > 0
