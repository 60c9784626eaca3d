"""CTRL (Keskar et al., 2019): the decoder of 2017 with pre-norm.

A text starts with a control code that specifies its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer import spec
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import UNWRITTEN, WeightRule, projections

NAME = "CTRL"
MODEL_TYPES = ("ctrl",)
CLASSES = {
    "CTRLModel": "",
    "CTRLLMHeadModel": "transformer.",
    "CTRLForSequenceClassification": "transformer.",
}
IGNORED: Mapping[str, str] = {
    "attn_pdrop": "the published model drops nothing there",
    "n_ctx": "how long its training texts were; the positions go on",
    "from_tf": "where the file came from",
    **{
        f"summary_{key}": "for a head that no class of it has"
        for key in ("type", "use_proj", "activation", "proj_to_labels", "first_dropout")
    },
}
UNUSED_TENSORS: Mapping[str, str] = {}
TINY: tuple[dict[str, Any], ...] = (
    {
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "dff": 64,
        "n_positions": 160,
        "vocab_size": 99,
        "pad_token_id": 0,
    },
    {
        "n_embd": 24,
        "n_layer": 3,
        "n_head": 2,
        "dff": 40,
        "n_positions": 144,
        "vocab_size": 61,
        "pad_token_id": 0,
        "tie_word_embeddings": False,
        "num_labels": 3,
        "layer_norm_epsilon": 1e-5,
    },
)
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "ctrl": ("CTRLLMHeadModel", {"n_positions": 50000})
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    config.only("pruned_heads", {})
    width, count = config.integer("n_embd", 1280), config.integer("n_head", 16)
    block = spec.BlockSpec(
        attention=spec.AttentionSpec(heads=count, head_dim=common.head_dim(config, width, count)),
        ffn=spec.FeedForwardSpec(width=config.integer("dff", 8192), activation="relu"),
        norm=spec.NormSpec(eps=1e-6),
        pattern=spec.CAUSAL,
        dropout=config.dropout("resid_pdrop", 0.1),
    )
    embed = spec.TokenEmbeddingSpec(
        vocabulary=config.integer("vocab_size", 246534),
        scale=width**0.5,
        position=spec.PositionTableSpec(length=config.integer("n_positions", 256), layout="halves"),
        segments_are_tokens=True,
        dropout=config.dropout("embd_pdrop", 0.1),
    )
    kind = architecture.removeprefix("CTRL")
    chosen = heads.decoder_heads(config, kind, embed.vocabulary, dropout=0.0, lm_bias=True)
    return spec.ModelSpec(
        decoder=spec.StackSpec(
            width=width,
            embed=embed,
            blocks=(block,) * config.layers("n_layer", 48),
            final_norm=spec.NormSpec(eps=config.eps("layer_norm_epsilon", 1e-6)),
        ),
        heads=chosen,
        tied_weights=heads.tie_head(config, chosen, "decoder.embed.token.weight"),
        tokens=common.special_tokens(config),
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("initializer_range", 0.02, least=0)),
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    hf, local = "{base}h.{i}", "decoder.blocks.{i}"
    attention = f"{hf}.multi_head_attention."
    return (
        WeightRule("{base}w", "decoder.embed.token"),
        WeightRule((), "decoder.embed.position", UNWRITTEN, optional=True),
        WeightRule(f"{hf}.layernorm1", f"{local}.attention_norm"),
        *projections(attention, f"{local}.attention", "Wq", "Wk", "Wv", "dense"),
        WeightRule(f"{hf}.layernorm2", f"{local}.ffn_norm"),
        WeightRule(f"{hf}.ffn.0", f"{local}.ffn.up"),
        WeightRule(f"{hf}.ffn.2", f"{local}.ffn.down"),
        WeightRule("{base}layernorm", "decoder.final_norm"),
        WeightRule("lm_head", "heads.lm.out"),
        WeightRule("classifier", "heads.classify.out"),
    )
