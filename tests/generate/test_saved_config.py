"""A folder's generation_config.json: what the reference does with it is done here, or refused."""

from __future__ import annotations

import json

import pytest
import torch
import transformers

import glassformer as gf
from glassformer import GlassformerError
from glassformer.generate.config import KINDS, make_generation_config
from glassformer.generate.saved_config import REFUSED, WITHOUT_EFFECT

EFFECTIVE = {
    "sequence_bias": [[[5], 2.0]],
    "guidance_scale": 1.5,
    "watermarking_config": {"greenlist_ratio": 0.25},
    "dola_layers": "high",
    "token_healing": True,
    "constraints": [1],
    "encoder_repetition_penalty": 1.2,
    "encoder_no_repeat_ngram_size": 3,
    "exponential_decay_length_penalty": [5, 1.1],
    "assistant_ensemble_weight": 0.5,
    "cache_implementation": "quantized",
    "epsilon_cutoff": 3e-4,
    "eta_cutoff": 3e-4,
    "top_h": 0.5,
    "renormalize_logits": True,
}
ONLY_WHERE_IT_MATTERS = {
    "epsilon_cutoff": {"do_sample": True},
    "eta_cutoff": {"do_sample": True},
    "top_h": {"do_sample": True},
    "renormalize_logits": {"num_beams": 2},
}


def test_every_setting_of_the_reference_is_accounted_for():
    """A field that a new version has is put into one of the three."""
    fields = set(vars(transformers.GenerationConfig()))
    assert fields <= {*KINDS, *WITHOUT_EFFECT, *REFUSED}
    assert not set(REFUSED) & (set(KINDS) | set(WITHOUT_EFFECT)) and set(EFFECTIVE) == set(REFUSED)


def test_what_the_reference_assumes_is_neutral():
    defaults = transformers.GenerationConfig._get_default_generation_params()
    assert not make_generation_config({**defaults, "do_sample": False}, {}).do_sample
    assert make_generation_config({**defaults, "do_sample": True}, {}).do_sample
    plain = make_generation_config({}, {})
    assert make_generation_config(transformers.GenerationConfig().to_dict(), {}) == plain
    assert make_generation_config(dict.fromkeys(REFUSED), {}) == plain


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_change_the_text_is_refused(name):
    saved = {name: EFFECTIVE[name]}
    given = ONLY_WHERE_IT_MATTERS.get(name, {})
    with pytest.raises(GlassformerError, match=f"sets {name} to .* pass {name}=None to write"):
        make_generation_config(saved, given)
    make_generation_config(saved, {**given, name: None})
    if given:
        make_generation_config(saved, {})
    with pytest.raises(GlassformerError, match=f"There is no option '{name}'"):
        make_generation_config({}, {name: EFFECTIVE[name]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("gpt2")
    torch.manual_seed(0)
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 30, "vocab_size": 40}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, pad_token_id=0)
    transformers.GPT2LMHeadModel(config).save_pretrained(path)
    return path


def save(folder, **settings):
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 0, **settings}))


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.0},
        {"temperature": 0.0, "do_sample": False, "top_p": 0.0, "top_k": -1},
        {"temperature": 0.0, "num_beams": 3},
    ],
)
def test_what_only_shapes_sampling_is_idle_without_it(folder, settings):
    save(folder, **settings)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder)
    wanted = theirs.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=9, pad_token_id=0)[0, 3:]
    assert gf.load(folder).generate([5, 6, 7], max_new_tokens=9).tokens == wanted.tolist()


def test_a_temperature_of_zero_cannot_be_sampled_with(folder):
    save(folder, temperature=0.0, do_sample=True)
    with pytest.raises(GlassformerError, match=r"must be at least 1e-9 .*do_sample out"):
        gf.load(folder).generate([5, 6, 7])


def test_a_length_that_no_tensor_can_hold(folder):
    save(folder, min_length=10**30)
    with pytest.raises(GlassformerError, match=r"min_length must be 0 or more, and below 2\^62"):
        gf.load(folder).generate([5, 6, 7])


def test_a_model_with_such_a_setting_writes_once_it_is_left_out(folder):
    save(folder, guidance_scale=3.0)
    model = gf.load(folder)
    with pytest.raises(GlassformerError, match=r"sets guidance_scale to 3\.0"):
        model.generate([5, 6, 7])
    plain = model.generate([5, 6, 7], max_new_tokens=4, guidance_scale=None)
    save(folder)
    assert plain.tokens == gf.load(folder).generate([5, 6, 7], max_new_tokens=4).tokens
