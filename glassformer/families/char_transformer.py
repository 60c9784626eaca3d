"""The character-level Transformer (Al-Rfou et al., 2018).

A deep stack of the layer of 2017 over bytes, with a learned position before every layer. It is
trained with classifiers on every layer, for the next character and the one after it.

The norm follows the residual sum, as in the layer that the paper cites, so that the classifiers
read a layer's output. They share no weights: that gives the paper's 44 and 235 million parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer import spec
from glassformer.families._shared import common
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule, projections

NAME = "Character Transformer"
MODEL_TYPES = ("char-transformer",)
CLASSES = {"CharTransformerModel": "", "CharTransformerForCausalLM": "model."}
IGNORED: Mapping[str, str] = {}
UNUSED_TENSORS: Mapping[str, str] = {}
TINY: tuple[dict[str, Any], ...] = (
    {
        "vocab_size": 60,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "max_position_embeddings": 160,
    },
    {
        "vocab_size": 50,
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 150,
        "num_targets": 3,
        "intermediate_predictions": False,
        "hidden_act": "gelu",
    },
    {
        "vocab_size": 50,
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 1,
        "num_attention_heads": 3,
        "max_position_embeddings": 150,
        "num_targets": 1,
    },
)
PRESETS = {
    f"char-transformer-t{layers}": ("CharTransformerForCausalLM", {"num_hidden_layers": layers})
    for layers in (12, 64)
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    width = config.integer("hidden_size", 512)
    count = config.integer("num_attention_heads", 8)
    layers = config.layers("num_hidden_layers", 12)
    dropout = config.dropout("dropout", 0.55)
    block = spec.BlockSpec(
        attention=spec.AttentionSpec(
            heads=count, head_dim=common.head_dim(config, width, count), dropout=dropout
        ),
        ffn=spec.FeedForwardSpec(
            width=config.integer("intermediate_size", 2048),
            activation=common.activation(config, "hidden_act", "relu"),
            dropout=dropout,
        ),
        norm=spec.NormSpec(eps=config.eps("layer_norm_eps", 1e-6)),
        placement="post",
        pattern=spec.CAUSAL,
    )
    embed = spec.TokenEmbeddingSpec(
        vocabulary=config.integer("vocab_size", 256),
        position=spec.PositionTableSpec(
            length=config.integer("max_position_embeddings", 512), every_layer=True
        ),
    )
    targets = config.integer("num_targets", 2)
    inner = range(layers - 1) if config.flag("intermediate_predictions", True) else range(0)
    return spec.ModelSpec(
        decoder=spec.StackSpec(width=width, embed=embed, blocks=(block,) * layers),
        heads=tuple(
            head(embed.vocabulary, depth, ahead)
            for depth in (None, *inner)
            for ahead in range(1, targets + 1)
            if not architecture.endswith("Model")
        ),
        tokens=common.special_tokens(config),
        init=spec.InitSpec(kind="xavier", std=1.0),
    )


def head(vocabulary: int, depth: int | None, ahead: int) -> spec.HeadSpec:
    """Builds one classifier.

    The last layer's classifier for the next character generates text; the others only help in
    training. A classifier that predicts further ahead has half the weight (the paper has one, for
    two characters ahead).
    """
    name = "lm" if depth is None else f"layer{depth}"
    return spec.HeadSpec(
        name=name if ahead == 1 else f"{name}_ahead{ahead}",
        num_outputs=vocabulary,
        depth=depth,
        prediction_offset=ahead,
        loss_weight=1.0 if ahead == 1 else 0.5,
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    hf, local = "{base}layers.{i}", "decoder.blocks.{i}"
    return (
        WeightRule("{base}embed_tokens", "decoder.embed.token"),
        WeightRule("{base}position_embedding", "decoder.embed.position"),
        WeightRule("{base}layer_position_embeddings.{i}", "decoder.tables.{i}"),
        *projections(
            f"{hf}.self_attn.", f"{local}.attention", "q_proj", "k_proj", "v_proj", "o_proj"
        ),
        WeightRule(f"{hf}.self_attn_layer_norm", f"{local}.attention_norm"),
        WeightRule(f"{hf}.mlp.up_proj", f"{local}.ffn.up"),
        WeightRule(f"{hf}.mlp.down_proj", f"{local}.ffn.down"),
        WeightRule(f"{hf}.mlp_layer_norm", f"{local}.ffn_norm"),
        WeightRule("lm_head", "heads.lm.out"),
        WeightRule("auxiliary_heads.{name}", "heads.{name}.out"),
    )
