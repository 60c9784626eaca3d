"""Parts shared by decoders that were made with the tensor2tensor library.

These have the layer of 2017 without bias in attention, sinusoidal positions, and token embeddings
scaled by sqrt(width). The norm follows the residual sum (`norm_first` false, the library's first
settings) or precedes each sublayer (its later settings, which end with a norm). Tensors have the
same names in files as Llama's.
"""

from __future__ import annotations

import math

from glassformer import spec
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import UNWRITTEN, WeightRule, projections


def decoder(config: ConfigReader, kind: str) -> spec.ModelSpec:
    """Builds the model; `kind` is the ending of the class name."""
    width = config.integer("hidden_size", 512)
    count = config.integer("num_attention_heads", 8)
    dropout = config.dropout("hidden_dropout", 0.1)
    first = config.flag("norm_first", True)
    norm = spec.NormSpec(eps=config.eps("layer_norm_eps", 1e-6))
    block = spec.BlockSpec(
        attention=spec.AttentionSpec(
            heads=count,
            head_dim=common.head_dim(config, width, count),
            bias=False,
            out_bias=False,
            dropout=config.dropout("attention_dropout", 0.1),
        ),
        ffn=spec.FeedForwardSpec(
            width=config.integer("intermediate_size", 2048),
            activation=common.activation(config, "hidden_act", "relu"),
            dropout=config.dropout("activation_dropout", 0.1),
        ),
        norm=norm,
        placement="pre" if first else "post",
        pattern=spec.CAUSAL,
        dropout=dropout,
    )
    longest = config.integer("max_position_embeddings", 2048)
    embed = spec.TokenEmbeddingSpec(
        vocabulary=config.integer("vocab_size"),
        scale=math.sqrt(width),
        position=spec.PositionTableSpec(length=longest, layout="inclusive"),
        dropout=dropout,
    )
    chosen = heads.decoder_heads(config, kind, embed.vocabulary, dropout=0.0)
    return spec.ModelSpec(
        decoder=spec.StackSpec(
            width=width,
            embed=embed,
            blocks=(block,) * config.layers("num_hidden_layers", 6),
            final_norm=norm if first else None,
        ),
        heads=chosen,
        tied_weights=heads.tie_head(config, chosen, "decoder.embed.token.weight"),
        tokens=common.special_tokens(config),
        init=spec.InitSpec(kind="xavier", std=1.0),
    )


THEIRS, OURS = "{base}layers.{i}", "decoder.blocks.{i}"
RULES = (
    WeightRule("{base}embed_tokens", "decoder.embed.token"),
    WeightRule((), "decoder.embed.position", UNWRITTEN),
    *projections(
        f"{THEIRS}.self_attn.", f"{OURS}.attention", "q_proj", "k_proj", "v_proj", "o_proj"
    ),
    WeightRule(f"{THEIRS}.self_attn_layer_norm", f"{OURS}.attention_norm"),
    WeightRule(f"{THEIRS}.mlp.up_proj", f"{OURS}.ffn.up"),
    WeightRule(f"{THEIRS}.mlp.down_proj", f"{OURS}.ffn.down"),
    WeightRule(f"{THEIRS}.mlp_layer_norm", f"{OURS}.ffn_norm"),
    WeightRule("{base}norm", "decoder.final_norm"),
    WeightRule("lm_head", "heads.lm.out"),
)
