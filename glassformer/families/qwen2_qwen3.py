"""Qwen 2 and 3 (Qwen team, 2024 and 2025): Llama with query, key and value bias or norms.

Qwen 2 has a bias on queries, keys and values; Qwen 3 normalizes queries and keys per head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from glassformer import spec
from glassformer.families._shared import llama_like
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "Qwen"
MODEL_TYPES = ("qwen2", "qwen3")
KINDS = {
    "Model": "",
    "ForCausalLM": "model.",
    "ForSequenceClassification": "model.",
    "ForTokenClassification": "model.",
    "ForQuestionAnswering": "transformer.",
}
CLASSES = {f"Qwen{n}{kind}": base for n in (2, 3) for kind, base in KINDS.items()}
IGNORED: Mapping[str, str] = {}
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
        "head_dim": 8,
    },
    {
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 1,
        "vocab_size": 61,
        "pad_token_id": 0,
        "head_dim": 4,
        "tie_word_embeddings": True,
        "num_labels": 3,
        "hidden_act": "gelu_new",
        "use_sliding_window": True,
        "sliding_window": 7,
        "max_window_layers": 1,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1000.0,
    },
    {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "vocab_size": 50,
        "pad_token_id": 0,
        "head_dim": 16,
        "use_sliding_window": True,
        "sliding_window": 5,
        "layer_types": ["sliding_attention", "full_attention"],
    },
)
BASE = llama_like.LlamaDefaults(ffn=22016, kv_heads=32, vocabulary=151936, longest=32768)
DEFAULTS = {"qwen2": BASE, "qwen3": replace(BASE, head_dim=128)}


def _size(width: int, ffn: int, layers: int, heads: int, kv: int, tied: bool) -> dict[str, object]:
    return {
        "hidden_size": width,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "tie_word_embeddings": tied,
        "rope_theta": 1e6,
    }


PRESETS = {
    "qwen2.5-0.5b": ("Qwen2ForCausalLM", _size(896, 4864, 24, 14, 2, True)),
    "qwen2.5-1.5b": ("Qwen2ForCausalLM", _size(1536, 8960, 28, 12, 2, True)),
    "qwen2.5-3b": ("Qwen2ForCausalLM", _size(2048, 11008, 36, 16, 2, True)),
    "qwen2.5-7b": (
        "Qwen2ForCausalLM",
        {**_size(3584, 18944, 28, 28, 4, False), "vocab_size": 152064},
    ),
    "qwen3-0.6b": ("Qwen3ForCausalLM", _size(1024, 3072, 28, 16, 8, True)),
    "qwen3-1.7b": ("Qwen3ForCausalLM", _size(2048, 6144, 28, 16, 8, True)),
    "qwen3-4b": ("Qwen3ForCausalLM", _size(2560, 9728, 36, 32, 8, True)),
    "qwen3-8b": ("Qwen3ForCausalLM", _size(4096, 12288, 36, 32, 8, False)),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    config.only("use_mrope", False)
    model_type = config.word("model_type")
    default = DEFAULTS[model_type]
    model = llama_like.llama_like_spec(
        config, architecture.removeprefix(f"Qwen{model_type[-1]}"), default
    )
    model = llama_like.with_rotary(config, model, default)
    layers = len(model.last_stack.blocks)
    first = config.integer("max_window_layers", 28, least=0)
    size = config.nullable_integer("sliding_window", 4096)
    windowed = config.flag("use_sliding_window", False) and size is not None
    local = llama_like.local_layers(config, [windowed and i >= first for i in range(layers)])
    normed = model_type == "qwen3"
    biased = config.flag("attention_bias", False) if normed else True

    def change(layer: int, block: spec.BlockSpec) -> spec.BlockSpec:
        block = llama_like.with_bias(block, qkv=biased, out=biased and normed)
        norm = block.norm if normed else None
        return replace(
            block,
            attention=replace(block.attention, qk_norm=norm),
            pattern=llama_like.window(size if local[layer] else None),
        )

    return llama_like.each_layer(model, change)


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return llama_like.RULES
