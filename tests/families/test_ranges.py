"""Every number of a config.json has a type and a range, in every family.

Each number that a family reads is replaced by values that no model can have; the message names the
key, the value and what it must be.
"""

from __future__ import annotations

import math

import pytest

from glassformer.errors import ConfigError, GlassformerError
from glassformer.families import classes_of, families, read
from glassformer.families._shared.config_reader import LARGEST, MOST_LAYERS, ConfigReader

WRONG = (math.nan, math.inf, -math.inf, -(2**63), 1e300, True, "8", {})


def numbers(config: dict) -> list[str]:
    return [key for key, value in config.items() if type(value) in (int, float)]


@pytest.mark.parametrize("model_type", [kind for kind, family in families().items() if family.TINY])
def test_a_number_out_of_range_is_named(model_type):
    family = families()[model_type]
    for tiny in family.TINY:
        architecture = classes_of(family, model_type)[-1]
        config = {"model_type": model_type, **tiny}
        used = read(config, architecture).used
        for key in set(numbers(config)) & used:
            for value in WRONG:
                with pytest.raises(GlassformerError) as raised:
                    read({**config, key: value}, architecture)
                said = str(raised.value)
                assert key in said and "\n" not in said, (key, value, said)


@pytest.mark.parametrize("key", ["layer_norm_epsilon", "rms_norm_eps", "rope_theta"])
@pytest.mark.parametrize("value", [math.nan, -1e-5, math.inf])
def test_eps_and_theta(key, value):
    kind, architecture = ("gpt2", "GPT2Model") if "layer" in key else ("llama", "LlamaModel")
    config = {"model_type": kind, **families()[kind].TINY[0], key: value}
    config.pop("rope_parameters", None)
    with pytest.raises(ConfigError, match=rf"{key} = .*it must be a finite number"):
        read(config, architecture)


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("deberta-v2", {"conv_kernel_size": 3, "conv_groups": 5}, "cannot be split into 5 groups"),
        ("deberta-v2", {"conv_kernel_size": 4}, "choose an odd number"),
        ("deberta-v2", {"position_buckets": 1}, "cannot reach the distance"),
        ("deberta-v2", {"max_relative_positions": 1}, "cannot reach the distance 1"),
        ("transfo-xl", {"d_model": 3}, "choose an even width"),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1, "factor": 4.0,
                                       "original_max_position_embeddings": 16}},
         "it must be above 1"),
    ],
)  # fmt: skip
def test_numbers_that_no_computation_can_have(kind, changes, said):
    family = families()[kind]
    with pytest.raises(GlassformerError, match=said):
        read({"model_type": kind, **family.TINY[0], **changes}, classes_of(family, kind)[0])


def test_theta_of_zero():
    config = {"model_type": "llama", **families()["llama"].TINY[0], "rope_theta": 0}
    with pytest.raises(ConfigError, match="rope_theta = 0; it must be a finite number above 0"):
        read(config, "LlamaModel")


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("n_layer", 10**9, f"from 1 to {MOST_LAYERS:,}"),
        ("n_layer", 0, f"from 1 to {MOST_LAYERS:,}"),
        ("n_embd", -32, f"from 1 to {LARGEST:,}"),
        ("n_embd", 2**63, f"from 1 to {LARGEST:,}"),
        ("attn_pdrop", 1.0, "at least 0 and less than 1"),
        ("attn_pdrop", -0.1, "at least 0 and less than 1"),
        ("initializer_range", math.nan, "a finite number of at least 0"),
        ("eos_token_id", -2, f"a token id from 0 to {LARGEST:,}"),
        ("layer_norm_epsilon", 2.0, "at least 0 and at most 1"),
        ("num_labels", 10**9, "from 1 to 500,000"),
        ("n_head", 5, "not a multiple"),
    ],
)
def test_the_range_is_said(key, value, wanted):
    config = {"model_type": "gpt2", **families()["gpt2"].TINY[0], key: value}
    with pytest.raises(ConfigError) as raised:
        read(config, "GPT2LMHeadModel")
    assert wanted in str(raised.value)


def test_numbers_are_finite_and_bounded():
    reader = ConfigReader({"a": 1, "b": 0.5, "c": None, "d": [1, -1]}, "a family")
    assert reader.integer("a") == 1 and reader.dropout("b") == 0.5
    assert reader.nullable_integer("c", 7) is None and reader.nullable_integer("x", 7) == 7
    assert reader.nullable_positive("x", None) is None
    with pytest.raises(ConfigError, match="d = "):
        reader.items("d", [], int, "numbers")
