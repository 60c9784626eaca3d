"""Llama (Touvron et al., 2023): a decoder with rotary positions, RMSNorm, grouped heads, SwiGLU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from glassformer import spec
from glassformer.families._shared import llama_like
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "Llama"
MODEL_TYPES = ("llama",)
CLASSES = {
    "LlamaModel": "",
    "LlamaForCausalLM": "model.",
    "LlamaForSequenceClassification": "model.",
    "LlamaForTokenClassification": "model.",
    "LlamaForQuestionAnswering": "transformer.",
}
IGNORED: Mapping[str, str] = {}
UNUSED_TENSORS = {
    "{base}layers.{i}.self_attn.rotary_emb.inv_freq": "the frequencies, which are computed",
}
TINY = (
    {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 99,
        "pad_token_id": 0,
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
        "attention_bias": True,
        "mlp_bias": True,
        "tie_word_embeddings": True,
        "num_labels": 3,
        "hidden_act": "gelu_new",
        "max_position_embeddings": 128,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    },
    {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "vocab_size": 50,
        "pad_token_id": 0,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 100.0,
            "factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    },
    {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "vocab_size": 50,
        "pad_token_id": 0,
        "rope_theta": 5000.0,
        "rope_scaling": {"type": "linear", "factor": 2.0},
    },
)
DEFAULTS = llama_like.LlamaDefaults(bos=1, eos=2)
PRESETS = {
    name: ("LlamaForCausalLM", config)
    for name, config in (
        ("llama-7b", {}),
        (
            "llama-3-8b",
            {
                "hidden_size": 4096,
                "intermediate_size": 14336,
                "num_key_value_heads": 8,
                "vocab_size": 128256,
                "rope_theta": 500000.0,
                "rms_norm_eps": 1e-5,
            },
        ),
        (
            "llama-3.2-1b",
            {
                "hidden_size": 2048,
                "intermediate_size": 8192,
                "num_hidden_layers": 16,
                "num_key_value_heads": 8,
                "vocab_size": 128256,
                "rope_theta": 500000.0,
                "head_dim": 64,
                "rms_norm_eps": 1e-5,
                "tie_word_embeddings": True,
            },
        ),
    )
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    model = llama_like.llama_like_spec(config, architecture.removeprefix("Llama"), DEFAULTS)
    biased, ffn_biased = config.flag("attention_bias", False), config.flag("mlp_bias", False)

    def change(layer: int, block: spec.BlockSpec) -> spec.BlockSpec:
        block = llama_like.with_bias(block, qkv=biased, out=biased)
        return replace(block, ffn=replace(block.ffn, bias=ffn_biased))

    return llama_like.each_layer(llama_like.with_rotary(config, model, DEFAULTS), change)


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return llama_like.RULES
