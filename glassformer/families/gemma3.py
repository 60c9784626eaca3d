"""Gemma 3's text model (Gemma team, 2025): Gemma 2 with query and key norms instead of the cap.

There are two sets of rotary positions, for layers with full attention and with a sliding window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer import spec
from glassformer.families import gemma
from glassformer.families._shared import llama_like
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.rotary import rope_by_layer, rotary_of
from glassformer.families._shared.weight_rules import WeightRule

NAME = "Gemma 3"
MODEL_TYPES = ("gemma3_text",)
CLASSES = {
    "Gemma3TextModel": "",
    "Gemma3ForCausalLM": "model.",
    "Gemma3TextForSequenceClassification": "model.",
}
IGNORED: Mapping[str, str] = {
    "attn_logit_softcapping": "a key of Gemma 2, which is read nowhere",
    "hidden_act": "it uses hidden_activation",
    "cache_implementation": "how the reference runs, not what it computes",
}
UNUSED_TENSORS: Mapping[str, str] = {}
TINY: tuple[dict[str, Any], ...] = (
    {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 99,
        "head_dim": 8,
        "sliding_window": 7,
        "query_pre_attn_scalar": 16,
        "sliding_window_pattern": 2,
        "rope_theta": 5000.0,
        "rope_local_base_freq": 100.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    },
    {
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 1,
        "vocab_size": 61,
        "head_dim": 6,
        "attention_bias": True,
        "tie_word_embeddings": False,
        "num_labels": 3,
        "hidden_activation": "silu",
        "sliding_window": 5,
        "final_logit_softcapping": 3.0,
        "query_pre_attn_scalar": 9,
        "rms_norm_eps": 1e-5,
        "layer_types": ["full_attention", "sliding_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 700.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
        },
    },
)
DEFAULTS = replace(gemma.SECOND, vocabulary=262208, longest=131072)


def _size(longest: int, window: int, scalar: int, far: float, *size: int) -> dict[str, object]:
    return {
        **gemma.size(*size),
        "max_position_embeddings": longest,
        "sliding_window": window,
        "query_pre_attn_scalar": scalar,
        "rope_scaling": {"rope_type": "linear", "factor": far} if far > 1 else None,
    }


PRESETS = {
    name: ("Gemma3ForCausalLM", config)
    for name, config in (
        (
            "gemma-3-270m",
            {**_size(32768, 512, 256, 1, 640, 2048, 18, 4, 1, 256), "vocab_size": 262144},
        ),
        (
            "gemma-3-1b",
            {**_size(32768, 512, 256, 1, 1152, 6912, 26, 4, 1, 256), "vocab_size": 262144},
        ),
        ("gemma-3-4b", _size(131072, 1024, 256, 8, 2560, 10240, 34, 8, 4, 256)),
        ("gemma-3-12b", _size(131072, 1024, 256, 8, 3840, 15360, 48, 16, 8, 256)),
        ("gemma-3-27b", _size(131072, 1024, 168, 8, 5376, 21504, 62, 32, 16, 128)),
    )
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    kind = architecture.removeprefix("Gemma3").removeprefix("Text")
    model = gemma.capped(gemma.body(config, kind, DEFAULTS), config, None)
    every = config.integer("sliding_window_pattern", config.integer("_sliding_window_pattern", 6))
    layers = range(len(model.last_stack.blocks))
    local = llama_like.local_layers(config, [(i + 1) % every != 0 for i in layers])
    size = config.nullable_integer("sliding_window", 4096)
    near, far = _positions(config, model.last_stack.attention_blocks[0].attention.head_dim)

    def change(layer: int, block: spec.BlockSpec) -> spec.BlockSpec:
        return replace(
            block,
            attention=replace(block.attention, qk_norm=block.norm),
            position=near if local[layer] else far,
            pattern=llama_like.window(size if local[layer] else None),
        )

    return llama_like.each_layer(model, change)


def _positions(config: ConfigReader, dim: int) -> tuple[spec.RotarySpec, spec.RotarySpec]:
    """Returns the rotary positions of sliding-window layers and of the others.

    Only the latter can be scaled.
    """
    longest = config.integer("max_position_embeddings", DEFAULTS.longest)
    by_type = rope_by_layer(config)
    near = {"rope_theta": config.positive("rope_local_base_freq", 10_000.0)}
    far = {"rope_theta": config.positive("rope_theta", 1_000_000.0)}
    near |= by_type.get("sliding_attention", {})
    far |= by_type.get("full_attention", {})
    far |= config.table("rope_scaling")
    stretched = rotary_of(config, far, dim, longest)  # `longest` includes the scaling
    return rotary_of(config, near, dim, longest), replace(stretched, length=longest)


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return gemma.SANDWICH_RULES
