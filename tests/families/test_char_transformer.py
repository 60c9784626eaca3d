"""The character-level Transformer: its auxiliary classifiers, and the paper's sizes."""

from __future__ import annotations

import pytest
import torch
from cases import TOLERANCE, Name

from glassformer.families import find_preset, spec_from_config
from glassformer.weights.mapping import build_transformer
from glassformer.weights.quantization import count_parameters


def has_classifiers(name: Name) -> bool:
    return name.architecture == "CharTransformerForCausalLM"


@pytest.mark.over(which=has_classifiers)
def test_auxiliary_classifiers_as_the_reference(case):
    batch = case.batch((9, 12, 5), "right")
    with torch.no_grad():
        ours = case.model(batch.tokens, attention_mask=batch.mask, auxiliary_heads=True)
        theirs = case.reference(batch.tokens, batch.mask)
    assert set(ours.head_outputs) == {"lm", *theirs["auxiliary"]}
    assert len(ours.head_outputs) == (6, 3, 1)[case.name.index]
    for name, logits in theirs["auxiliary"].items():
        assert (ours.head_outputs[name] - logits)[batch.mask].abs().max() <= TOLERANCE


@pytest.mark.parametrize(
    ("preset", "millions", "without"),
    [("char-transformer-t12", 44, 41), ("char-transformer-t64", 235, 219)],
)
def test_the_papers_numbers_of_weights(preset, millions, without):
    """44 and 235 million with all classifiers; 131,328 less for each that only helps to train."""
    config = find_preset(preset)
    model = build_transformer(spec_from_config(config, "CharTransformerForCausalLM"))
    alone = {**config, "num_targets": 1, "intermediate_predictions": False}
    bare = build_transformer(spec_from_config(alone, "CharTransformerForCausalLM"))
    assert count_parameters(model) // 10**6 == millions
    assert round(count_parameters(bare) / 1e6) == without
    helpers = 2 * config["num_hidden_layers"] - 1
    assert count_parameters(model) - count_parameters(bare) == helpers * 256 * 513
