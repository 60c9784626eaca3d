"""Rotary positions as config.json describes them: each setting has the effect that it has in the
reference, and a word that is not understood is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from cases import TOLERANCE

import glassformer as gf
from glassformer import GlassformerError
from glassformer.families import spec_from_config

SIZE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 50, "pad_token_id": 0,
        "max_position_embeddings": 64, "rope_theta": 100.0}  # fmt: skip
CLASSES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "mistral": "MistralForCausalLM",
}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "yarn": {"rope_scaling": YARN},
    "mscale over mscale_all_dim": {"rope_scaling": YARN | {"mscale": 1.0, "mscale_all_dim": 0.5}},
    "equal mscale": {"rope_scaling": YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}},
    "mscale alone": {"rope_scaling": YARN | {"mscale": 2.0}},
    "mscale of zero": {"rope_scaling": YARN | {"mscale": 1.0, "mscale_all_dim": 0}},
    "attention_factor": {
        "rope_scaling": YARN | {"attention_factor": 1.7, "mscale": 1.0, "mscale_all_dim": 0.5}
    },
    "beta": {"rope_scaling": YARN | {"beta_fast": 4, "beta_slow": 0.5}},
    "beta of zero": {"rope_scaling": YARN | {"beta_fast": 0, "beta_slow": None}},
    "not truncated": {"rope_scaling": YARN | {"truncate": False}},
    "length beside": {"rope_scaling": YARN, "original_max_position_embeddings": 32},
    "no length": {"rope_scaling": {"type": "yarn", "factor": 4.0}},
    "no factor": {"rope_scaling": YARN | {"factor": None}},
    "both types": {"rope_scaling": YARN | {"rope_type": "yarn"}},
    "finetuned": {"rope_scaling": YARN | {"finetuned": True}},
    "new keys": {"rope_parameters": YARN | {"rope_theta": 50.0, "mscale": 1, "mscale_all_dim": 2}},
    "both generations": {"rope_scaling": YARN, "rope_parameters": {"rope_type": "default"}},
    "linear": {"rope_scaling": {"type": "linear", "factor": 2.0}},
    "llama3": {"rope_scaling": LLAMA3},
    "llama3, length beside": {"rope_scaling": LLAMA3, "original_max_position_embeddings": 32},
    "default": {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}},
}


PAIRS = [  # without --all, every kind of settings and every class once
    pytest.param(
        settings,
        model_type,
        id=f"{name}-{model_type}",
        marks=() if kind % len(CLASSES) == number else pytest.mark.slow,
    )
    for kind, (name, settings) in enumerate(SETTINGS.items())
    for number, model_type in enumerate(CLASSES)
]


def make(folder: Path, model_type: str, settings: dict[str, Any]) -> Any:
    """A random model of the reference, read from the same config.json as ours."""
    config = {"model_type": model_type, "architectures": [CLASSES[model_type]], **SIZE, **settings}
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    known = transformers.AutoConfig.from_pretrained(folder)
    transformers.AutoModelForCausalLM.from_config(known).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config))
    return reference(folder)


def reference(folder: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")


@torch.no_grad()
@pytest.mark.parametrize(("settings", "model_type"), PAIRS)
def test_equals_the_reference_beyond_the_trained_length(model_type, settings, tmp_path):
    theirs = make(tmp_path / "theirs", model_type, settings)
    ours = gf.load(tmp_path / "theirs")
    tokens = torch.randint(1, 50, (2, 60), generator=torch.Generator().manual_seed(1))
    expected = theirs.eval()(tokens).logits
    assert float((ours(tokens).logits - expected).abs().max()) <= TOLERANCE

    ours.save(tmp_path / "saved")
    again, there = gf.load(tmp_path / "saved"), reference(tmp_path / "saved")
    assert float((again(tokens).logits - expected).abs().max()) <= TOLERANCE
    assert torch.equal(there.eval()(tokens).logits, expected)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rope_scaling": YARN | {"mscales": 1.0}}, "'yarn' with mscales, which"),
        ({"rope_scaling": LLAMA3 | {"mscale": 1.0}}, "'llama3' with mscale, which"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0, "attention_factor": 2.0}},
         "'linear' with attention_factor, which"),
        ({"rope_scaling": {"rope_type": "default", "factor": 4.0}}, "'default' with factor, which"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}},
         "'default' with partial_rotary_factor, which"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}},
         "with full_attention, which"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type 'dynamic'"),
        ({"rope_scaling": {"rope_type": "longrope", "short_factor": [1], "long_factor": [2]}},
         "rope_type 'longrope'"),
        ({"rope_scaling": {"type": "linear"}}, "lacks factor"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "lacks low_freq_factor"),
        ({"rope_scaling": YARN | {"mscale": "1"}}, "mscale = '1'; it must be a finite number"),
        ({"rope_scaling": YARN | {"factor": 0.0}}, "factor = 0.0; it must be"),
        ({"rope_scaling": YARN | {"factor": None, "original_max_position_embeddings": 0}},
         "original_max_position_embeddings = 0; it must be"),
        ({"rope_scaling": "yarn"}, "rope_scaling = 'yarn'; it must be an object"),
        ({"rope_theta": 0}, "rope_theta = 0; it must be"),
        ({"rope_theta": float("nan")}, "theta = nan; it must be"),
        ({"rms_norm_eps": -1e-5}, "eps = -1e-05; it must be"),
        ({"rms_norm_eps": float("nan")}, "eps = nan; it must be"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_named(settings, said):
    config = {"model_type": "llama", **SIZE, **settings}
    with pytest.raises(GlassformerError, match=said):
        spec_from_config(config, "LlamaForCausalLM")


@pytest.mark.parametrize(
    ("model_type", "architecture"),
    [("modernbert", "ModernBertModel"), ("gemma3_text", "Gemma3TextModel")],
)
def test_layers_with_a_window_have_settings_of_their_own(model_type, architecture):
    from glassformer.families import families

    config = {"model_type": model_type, **families()[model_type].TINY[0]}
    flat = {**config, "rope_parameters": {"rope_type": "linear", "factor": 2.0}}
    with pytest.raises(GlassformerError, match="two objects, full_attention and sliding"):
        spec_from_config(flat, architecture)
    both = {**config, "rope_scaling": {"type": "linear", "factor": 4.0}}
    both["rope_parameters"] = {"full_attention": {"rope_type": "linear", "factor": 2.0}}
    spec = spec_from_config(both, architecture)
    positions = [block.position for block in spec.last_stack.attention_blocks]
    assert 4.0 in {p.scaling.factor for p in positions if p.scaling is not None}
    assert 2.0 not in {p.scaling.factor for p in positions if p.scaling is not None}
