"""Gemma 1 and 2 (Gemma team, 2024): Llama with scaled embeddings and GeGLU.

The norms store their weights as offsets from 1. Gemma 2 also has norms after each sublayer, caps
scores and logits, and uses a sliding window in every second layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer import spec
from glassformer.families._shared import llama_like
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "Gemma"
MODEL_TYPES = ("gemma", "gemma2")
KINDS = {
    "Model": "",
    "ForCausalLM": "model.",
    "ForSequenceClassification": "model.",
    "ForTokenClassification": "model.",
}
CLASSES = {f"Gemma{n}{kind}": base for n in ("", "2") for kind, base in KINDS.items()}
IGNORED: Mapping[str, str] = {
    "hidden_act": "Gemma 2 uses hidden_activation",
    "hidden_activation": "Gemma 1 uses hidden_act",
    "cache_implementation": "how the reference runs, not what it computes",
    "sliding_window_size": "an older name of sliding_window",
    **dict.fromkeys(
        (
            "query_pre_attn_scalar",
            "attn_logit_softcapping",
            "final_logit_softcapping",
            "sliding_window",
            "layer_types",
        ),
        "Gemma 2 alone has it",
    ),
}
UNUSED_TENSORS: Mapping[str, str] = {}
TINY: tuple[dict[str, Any], ...] = (
    {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 99,
        "head_dim": 8,
        "sliding_window": 7,
        "query_pre_attn_scalar": 16,
    },
    {
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 1,
        "vocab_size": 61,
        "head_dim": 6,
        "attention_bias": True,
        "tie_word_embeddings": False,
        "num_labels": 3,
        "hidden_act": "gelu",
        "hidden_activation": "silu",
        "sliding_window": 5,
        "final_logit_softcapping": None,
        "attn_logit_softcapping": 2.0,
        "query_pre_attn_scalar": 9,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500.0,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
    },
)
FIRST = llama_like.LlamaDefaults(
    width=3072,
    ffn=24576,
    layers=28,
    heads=16,
    kv_heads=16,
    head_dim=256,
    vocabulary=256000,
    longest=8192,
    tied=True,
    pad=0,
    bos=2,
    eos=1,
    activation="gelu_pytorch_tanh",
)
SECOND = replace(
    FIRST, width=2304, ffn=9216, layers=26, heads=8, kv_heads=4, activation_key="hidden_activation"
)


def size(width: int, ffn: int, layers: int, heads: int, kv: int, dim: int) -> dict[str, object]:
    return {
        "hidden_size": width,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": dim,
    }


PRESETS = {
    "gemma-2b": ("GemmaForCausalLM", size(2048, 16384, 18, 8, 1, 256)),
    "gemma-7b": ("GemmaForCausalLM", size(3072, 24576, 28, 16, 16, 256)),
    "gemma-2-2b": ("Gemma2ForCausalLM", size(2304, 9216, 26, 8, 4, 256)),
    "gemma-2-9b": ("Gemma2ForCausalLM", size(3584, 14336, 42, 16, 8, 256)),
    "gemma-2-27b": (
        "Gemma2ForCausalLM",
        {**size(4608, 36864, 46, 32, 16, 128), "query_pre_attn_scalar": 144},
    ),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    if config.word("model_type") == "gemma2":
        return second(config, architecture)
    model = body(config, architecture.removeprefix("Gemma"), FIRST)
    if config.optional("hidden_act") == "gelu":  # early files mean the tanh approximation
        model = llama_like.each_layer(
            model, lambda _, b: replace(b, ffn=replace(b.ffn, activation="gelu_tanh"))
        )
    return llama_like.with_rotary(config, model, FIRST)


def second(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    model = capped(body(config, architecture.removeprefix("Gemma2"), SECOND), config, 30.0)
    softcap = config.nullable_positive("attn_logit_softcapping", 50.0)
    local = llama_like.local_layers(
        config, [i % 2 == 0 for i in range(len(model.last_stack.blocks))]
    )
    size = config.nullable_integer("sliding_window", 4096)

    def change(layer: int, block: spec.BlockSpec) -> spec.BlockSpec:
        return replace(
            block,
            attention=replace(block.attention, softcap=softcap),
            pattern=llama_like.window(size if local[layer] else None),
        )

    return llama_like.each_layer(llama_like.with_rotary(config, model, SECOND), change)


def body(config: ConfigReader, kind: str, default: llama_like.LlamaDefaults) -> spec.ModelSpec:
    """Builds what all Gemma models have: scaled embeddings, and norm weights as offsets from 1."""
    config.only("use_bidirectional_attention", False)
    model = llama_like.llama_like_spec(config, kind, default, unit_offset=True)
    biased = config.flag("attention_bias", False)
    assert model.decoder is not None
    embed = replace(model.decoder.embed, scale=model.decoder.width**0.5)
    model = replace(model, decoder=replace(model.decoder, embed=embed))
    return llama_like.each_layer(
        model, lambda _, b: llama_like.with_bias(b, qkv=biased, out=biased)
    )


def capped(model: spec.ModelSpec, config: ConfigReader, default: float | None) -> spec.ModelSpec:
    """Adds what Gemma 2 and 3 have: norms around each sublayer, their own scale, capped logits."""
    softcap = config.nullable_positive("final_logit_softcapping", default)
    scale = config.positive("query_pre_attn_scalar", 256) ** -0.5
    heads = tuple(replace(h, softcap=softcap) if h.name == "lm" else h for h in model.heads)

    def change(layer: int, block: spec.BlockSpec) -> spec.BlockSpec:
        return replace(block, placement="sandwich", attention=replace(block.attention, scale=scale))

    return llama_like.each_layer(replace(model, heads=heads), change)


SANDWICH_RULES = (
    *llama_like.BODY_RULES,
    WeightRule(
        f"{llama_like.THEIRS}.post_attention_layernorm", f"{llama_like.OURS}.attention_norm_out"
    ),
    WeightRule(f"{llama_like.THEIRS}.pre_feedforward_layernorm", f"{llama_like.OURS}.ffn_norm"),
    WeightRule(
        f"{llama_like.THEIRS}.post_feedforward_layernorm", f"{llama_like.OURS}.ffn_norm_out"
    ),
)


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    sandwich = model.last_stack.attention_blocks[0].placement == "sandwich"
    return SANDWICH_RULES if sandwich else llama_like.RULES
