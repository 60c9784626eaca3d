"""GPT-Neo (Black et al., 2021): GPT-2 with unscaled scores and a window in every second layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer import spec
from glassformer.errors import ConfigError
from glassformer.families import gpt2
from glassformer.families._shared import common, heads, llama_like
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule, projections

NAME = "GPT-Neo"
MODEL_TYPES = ("gpt_neo",)
CLASSES = {
    "GPTNeoModel": "",
    "GPTNeoForCausalLM": "transformer.",
    "GPTNeoForSequenceClassification": "transformer.",
    "GPTNeoForTokenClassification": "transformer.",
    "GPTNeoForQuestionAnswering": "transformer.",
}
IGNORED: Mapping[str, str] = {
    **gpt2.IGNORED,
}
UNUSED_TENSORS = {
    f"{{base}}h.{{i}}.attn.attention.{name}": "the causal mask, which is computed"
    for name in ("bias", "masked_bias")
}
TINY: tuple[dict[str, Any], ...] = (
    {
        "hidden_size": 32,
        "num_layers": 2,
        "num_heads": 4,
        "max_position_embeddings": 160,
        "vocab_size": 99,
        "attention_types": [[["global", "local"], 1]],
        "window_size": 7,
        "bos_token_id": 98,
        "eos_token_id": 98,
        "pad_token_id": 0,
    },
    {
        "hidden_size": 24,
        "num_layers": 3,
        "num_heads": 2,
        "max_position_embeddings": 144,
        "vocab_size": 61,
        "attention_types": [[["local"], 2], [["global"], 1]],
        "window_size": 5,
        "intermediate_size": 40,
        "activation_function": "relu",
        "pad_token_id": 0,
        "bos_token_id": 3,
        "eos_token_id": 4,
        "tie_word_embeddings": False,
        "num_labels": 3,
        "layer_norm_epsilon": 1e-6,
    },
)
PRESETS = {
    f"gpt-neo-{name}": (
        "GPTNeoForCausalLM",
        {
            "hidden_size": width,
            "num_layers": layers,
            "num_heads": count,
            "attention_types": [[["global", "local"], layers // 2]],
        },
    )
    for name, width, layers, count in (
        ("125m", 768, 12, 12),
        ("1.3b", 2048, 24, 16),
        ("2.7b", 2560, 32, 20),
    )
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    width, count = config.integer("hidden_size", 2048), config.integer("num_heads", 16)
    norm = spec.NormSpec(eps=config.eps("layer_norm_epsilon", 1e-5))
    attention = spec.AttentionSpec(
        heads=count,
        head_dim=common.head_dim(config, width, count),
        scale=1.0,
        bias=False,
        dropout=config.dropout("attention_dropout", 0.0),
    )
    ffn = spec.FeedForwardSpec(
        width=config.integer("intermediate_size", 4 * width),
        activation=common.activation(config, "activation_function", "gelu_new"),
    )
    size = config.integer("window_size", 256)
    dropout = config.dropout("resid_dropout", 0.0)
    blocks = tuple(
        spec.BlockSpec(
            attention=attention,
            ffn=ffn,
            norm=norm,
            pattern=llama_like.window(size if kind == "local" else None),
            dropout=dropout,
        )
        for kind in _layers(config)
    )
    embed = spec.TokenEmbeddingSpec(
        vocabulary=config.integer("vocab_size", 50257),
        position=spec.PositionTableSpec(length=config.integer("max_position_embeddings", 2048)),
        segments_are_tokens=True,
        dropout=config.dropout("embed_dropout", 0.0),
    )
    kind = architecture.removeprefix("GPTNeo")
    classify_dropout = config.dropout("classifier_dropout", 0.1)
    chosen = heads.decoder_heads(config, kind, embed.vocabulary, classify_dropout)
    return spec.ModelSpec(
        decoder=spec.StackSpec(width=width, embed=embed, blocks=blocks, final_norm=norm),
        heads=chosen,
        tied_weights=heads.tie_head(config, chosen, "decoder.embed.token.weight"),
        tokens=common.special_tokens(config, bos=50256, eos=50256),
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("initializer_range", 0.02, least=0)),
    )


def _layers(config: ConfigReader) -> list[str]:
    """Returns `global` or `local` for every layer; [[["global", "local"], 2]] means both, twice."""
    count = config.layers("num_layers", 24)
    types = config.items("attention_types", [[["global", "local"], 12]], list, "names and a number")
    try:
        expanded = [kind for kinds, times in types for kind in list(kinds) * min(times, count)]
    except (TypeError, ValueError):
        raise config.wrong("attention_types", "pairs of names and how often they repeat") from None
    layers = config.items("attention_layers", expanded, str, "names")
    if len(layers) != count or not set(layers) <= {"global", "local"}:
        raise ConfigError(
            f"config.json has the layers {layers!r} by attention_types; they must say global or "
            f"local for each of the {count} layers."
        )
    return layers


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    hf, local = "{base}h.{i}", "decoder.blocks.{i}"
    return (
        WeightRule("{base}wte", "decoder.embed.token"),
        WeightRule("{base}wpe", "decoder.embed.position"),
        WeightRule(f"{hf}.ln_1", f"{local}.attention_norm"),
        *projections(
            f"{hf}.attn.attention.",
            f"{local}.attention",
            "q_proj",
            "k_proj",
            "v_proj",
            "out_proj",
        ),
        WeightRule(f"{hf}.ln_2", f"{local}.ffn_norm"),
        WeightRule(f"{hf}.mlp.c_fc", f"{local}.ffn.up"),
        WeightRule(f"{hf}.mlp.c_proj", f"{local}.ffn.down"),
        WeightRule("{base}ln_f", "decoder.final_norm"),
        *gpt2.HEAD_RULES,
    )
