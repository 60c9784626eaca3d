"""Mistral (Jiang et al., 2023): Llama with grouped heads and a sliding window in every layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from glassformer import spec
from glassformer.families._shared import llama_like
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "Mistral"
MODEL_TYPES = ("mistral",)
CLASSES = {
    "MistralModel": "",
    "MistralForCausalLM": "model.",
    "MistralForSequenceClassification": "model.",
    "MistralForTokenClassification": "model.",
    "MistralForQuestionAnswering": "model.",
}
IGNORED: Mapping[str, str] = {
    "layer_types": "sliding_window alone says what a layer sees, the same in all of them",
}
UNUSED_TENSORS: Mapping[str, str] = {}
TINY = (
    {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 99,
        "pad_token_id": 0,
        "sliding_window": 7,
    },
    {
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 1,
        "vocab_size": 61,
        "pad_token_id": 0,
        "head_dim": 8,
        "tie_word_embeddings": True,
        "num_labels": 3,
        "hidden_act": "gelu_new",
        "sliding_window": None,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1000.0,
    },
)
DEFAULTS = llama_like.LlamaDefaults(ffn=14336, kv_heads=8, longest=4096 * 32, bos=1, eos=2)
PRESETS = {
    name: ("MistralForCausalLM", {"rms_norm_eps": 1e-5, "max_position_embeddings": 32768, **config})
    for name, config in (
        ("mistral-7b", {"sliding_window": 4096}),
        ("mistral-7b-v0.3", {"sliding_window": None, "vocab_size": 32768, "rope_theta": 1e6}),
    )
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    kind = architecture.removeprefix("Mistral")
    model = llama_like.with_rotary(
        config, llama_like.llama_like_spec(config, kind, DEFAULTS), DEFAULTS
    )
    pattern = llama_like.window(config.nullable_integer("sliding_window", 4096))
    return llama_like.each_layer(model, lambda _, block: replace(block, pattern=pattern))


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return llama_like.RULES
