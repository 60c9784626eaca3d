"""Phi 1 to 2 (Gunasekar et al., 2023): parallel attention and feed-forward after one norm.

Rotary positions on a part of each head, bias everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer import spec
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.rotary import partial_rotary
from glassformer.families._shared.weight_rules import WeightRule, projections

NAME = "Phi"
MODEL_TYPES = ("phi",)
CLASSES = {
    "PhiModel": "",
    "PhiForCausalLM": "model.",
    "PhiForSequenceClassification": "model.",
    "PhiForTokenClassification": "model.",
}
IGNORED: Mapping[str, str] = {}
UNUSED_TENSORS = {
    "{base}layers.{i}.self_attn.rotary_emb.inv_freq": "the frequencies, which are computed",
}
TINY: tuple[dict[str, Any], ...] = (
    {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 99,
        "pad_token_id": 0,
    },
    {
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "vocab_size": 61,
        "pad_token_id": 0,
        "qk_layernorm": True,
        "num_labels": 3,
        "hidden_act": "relu",
        "partial_rotary_factor": 0.34,
        "rope_theta": 500.0,
        "layer_norm_eps": 1e-6,
        "tie_word_embeddings": True,
    },
)
PRESETS = {
    name: (
        "PhiForCausalLM",
        {
            "hidden_size": width,
            "intermediate_size": 4 * width,
            "num_hidden_layers": layers,
            "partial_rotary_factor": share,
            "vocab_size": 51200,
        },
    )
    for name, width, layers, share in (
        ("phi-1", 2048, 24, 0.5),
        ("phi-1.5", 2048, 24, 0.5),
        ("phi-2", 2560, 32, 0.4),
    )
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    width = config.integer("hidden_size", 2048)
    count = config.integer("num_attention_heads", 32)
    dim = common.head_dim(config, width, count, "head_dim")
    norm = spec.NormSpec(eps=config.eps("layer_norm_eps", 1e-5))
    longest = config.integer("max_position_embeddings", 2048)
    block = spec.BlockSpec(
        attention=spec.AttentionSpec(
            heads=count,
            kv_heads=config.integer("num_key_value_heads", count),
            head_dim=dim,
            qk_norm=norm if config.flag("qk_layernorm", False) else None,
            dropout=config.dropout("attention_dropout", 0.0),
        ),
        ffn=spec.FeedForwardSpec(
            width=config.integer("intermediate_size", 8192),
            activation=common.activation(config, "hidden_act", "gelu_new"),
        ),
        norm=norm,
        residual="parallel_shared_norm",
        position=partial_rotary(config, dim, longest, 0.5, "partial_rotary_factor", "rope_theta"),
        pattern=spec.CAUSAL,
        dropout=config.dropout("resid_pdrop", 0.0),
    )
    vocabulary = config.integer("vocab_size", 51200)
    kind = architecture.removeprefix("Phi")
    chosen = heads.decoder_heads(config, kind, vocabulary, dropout=0.0, lm_bias=True)
    return spec.ModelSpec(
        decoder=spec.StackSpec(
            width=width,
            embed=spec.TokenEmbeddingSpec(
                vocabulary=vocabulary, dropout=config.dropout("embd_pdrop", 0.0)
            ),
            blocks=(block,) * config.layers("num_hidden_layers", 24),
            final_norm=norm,
        ),
        heads=chosen,
        tied_weights=heads.tie_head(config, chosen, "decoder.embed.token.weight", default=False),
        tokens=common.special_tokens(config, bos=1, eos=2),
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("initializer_range", 0.02, least=0)),
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    hf, local = "{base}layers.{i}", "decoder.blocks.{i}"
    attention = f"{hf}.self_attn."
    return (
        WeightRule("{base}embed_tokens", "decoder.embed.token"),
        WeightRule(f"{hf}.input_layernorm", f"{local}.attention_norm"),
        *projections(attention, f"{local}.attention", "q_proj", "k_proj", "v_proj", "dense"),
        WeightRule(f"{attention}q_layernorm", f"{local}.attention.q_norm"),
        WeightRule(f"{attention}k_layernorm", f"{local}.attention.k_norm"),
        WeightRule(f"{hf}.mlp.fc1", f"{local}.ffn.up"),
        WeightRule(f"{hf}.mlp.fc2", f"{local}.ffn.down"),
        WeightRule("{base}final_layernorm", "decoder.final_norm"),
        WeightRule("lm_head", "heads.lm.out"),
        WeightRule("score", "heads.classify.out"),
        WeightRule("score", "heads.tag.out"),
    )
