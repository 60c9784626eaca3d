"""OPT (Zhang et al., 2022): a GPT-2-like decoder with fairseq's names.

Positions start at row 2; the 350m model has small embeddings and post-norm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer import spec
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule, projections

NAME = "OPT"
MODEL_TYPES = ("opt",)
CLASSES = {
    "OPTModel": "",
    "OPTForCausalLM": "model.",
    "OPTForSequenceClassification": "model.",
    "OPTForQuestionAnswering": "model.",
}
IGNORED: Mapping[str, str] = {
    "activation_dropout": "the published models have none there",
}
UNUSED_TENSORS: Mapping[str, str] = {}
TINY: tuple[dict[str, Any], ...] = (
    {
        "hidden_size": 32,
        "ffn_dim": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 160,
        "vocab_size": 99,
    },
    {
        "hidden_size": 24,
        "ffn_dim": 40,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "max_position_embeddings": 144,
        "vocab_size": 61,
        "do_layer_norm_before": False,
        "word_embed_proj_dim": 16,
        "activation_function": "gelu",
        "num_labels": 3,
    },
    {
        "hidden_size": 32,
        "ffn_dim": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 8,
        "max_position_embeddings": 160,
        "vocab_size": 50,
        "_remove_final_layer_norm": True,
        "enable_bias": False,
        "tie_word_embeddings": False,
    },
)
PRESETS = {
    f"opt-{name}": (
        "OPTForCausalLM",
        {
            "hidden_size": width,
            "ffn_dim": 4 * width,
            "num_hidden_layers": layers,
            "num_attention_heads": count,
            **more,
        },
    )
    for name, width, layers, count, more in (
        ("125m", 768, 12, 12, {}),
        ("350m", 1024, 24, 16, {"word_embed_proj_dim": 512, "do_layer_norm_before": False}),
        ("1.3b", 2048, 24, 32, {}),
        ("2.7b", 2560, 32, 32, {}),
        ("6.7b", 4096, 32, 32, {}),
        ("13b", 5120, 40, 40, {}),
        ("30b", 7168, 48, 56, {}),
        ("66b", 9216, 64, 72, {}),
    )
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    config.only("layer_norm_elementwise_affine", True)
    config.only("learned_embeddings", True)
    config.only("scale_embeddings", False)
    width = config.integer("hidden_size", 768)
    count = config.integer("num_attention_heads", 12)
    inner = config.integer("word_embed_proj_dim", width)
    narrow = None if inner == width else inner
    before = config.flag("do_layer_norm_before", True)
    ends_bare = config.flag("_remove_final_layer_norm", False) or not before
    biased = config.flag("enable_bias", True)
    norm = spec.NormSpec()
    block = spec.BlockSpec(
        attention=spec.AttentionSpec(
            heads=count,
            head_dim=common.head_dim(config, width, count),
            bias=biased,
            out_bias=biased,
            dropout=config.dropout("attention_dropout", 0.0),
        ),
        ffn=spec.FeedForwardSpec(
            width=config.integer("ffn_dim", 3072),
            activation=common.activation(config, "activation_function", "relu"),
            bias=biased,
        ),
        norm=norm,
        placement="pre" if before else "post",
        pattern=spec.CAUSAL,
        dropout=config.dropout("dropout", 0.1),
    )
    embed = spec.TokenEmbeddingSpec(
        vocabulary=config.integer("vocab_size", 50272),
        embedding_size=narrow,
        project="sum" if narrow is None else "token",
        position=spec.PositionTableSpec(
            length=config.integer("max_position_embeddings", 2048), offset=2
        ),
    )
    kind = architecture.removeprefix("OPT")
    chosen = heads.decoder_heads(config, kind, embed.vocabulary, dropout=0.0)
    return spec.ModelSpec(
        decoder=spec.StackSpec(
            width=width,
            embed=embed,
            blocks=(block,) * config.layers("num_hidden_layers", 12),
            final_norm=None if ends_bare else norm,
            projection_width=narrow,
            layer_dropout=config.dropout("layerdrop", 0.0),
        ),
        heads=chosen,
        tied_weights=heads.tie_head(config, chosen, "decoder.embed.token.weight"),
        tokens=common.special_tokens(config, pad=1, bos=2, eos=2),
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("init_std", 0.02, least=0)),
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    body, local = "{base}decoder", "decoder.blocks.{i}"
    hf = f"{body}.layers.{{i}}"
    attention = f"{hf}.self_attn."
    return (
        WeightRule(f"{body}.embed_tokens", "decoder.embed.token"),
        WeightRule(f"{body}.embed_positions", "decoder.embed.position"),
        WeightRule(f"{body}.project_in", "decoder.embed.project"),
        *projections(attention, f"{local}.attention", "q_proj", "k_proj", "v_proj", "out_proj"),
        WeightRule(f"{hf}.self_attn_layer_norm", f"{local}.attention_norm"),
        WeightRule(f"{hf}.fc1", f"{local}.ffn.up"),
        WeightRule(f"{hf}.fc2", f"{local}.ffn.down"),
        WeightRule(f"{hf}.final_layer_norm", f"{local}.ffn_norm"),
        WeightRule(f"{body}.final_layer_norm", "decoder.final_norm"),
        WeightRule(f"{body}.project_out", "decoder.project"),
        WeightRule("lm_head", "heads.lm.out"),
        WeightRule("score", "heads.classify.out"),
        WeightRule("qa_outputs", "heads.span.out"),
    )
