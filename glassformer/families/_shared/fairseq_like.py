"""Parts shared by the encoder-decoder families that originate from fairseq."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

from glassformer import spec
from glassformer.families._shared import common
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import ROW, WeightRule, projections

IGNORED: Mapping[str, str] = {
    "classif_dropout": "an older name of classifier_dropout",
    "is_decoder": "the class says what the model is",
    "is_encoder_decoder": "the class says what the model is",
    "add_bias_logits": "whether the bias is there shows in the tensors",
    "extra_pos_embeddings": "the offset of learned positions, always 2",
    "force_bos_token_to_be_generated": "a default of text generation",
}
SMALL = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 160,
}
UNEVEN = {
    "d_model": 24,
    "encoder_layers": 1,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 56,
    "max_position_embeddings": 144,
}


def stack(
    config: ConfigReader,
    side: str,
    vocabulary: int,
    positions: spec.PositionTableSpec,
    norm: spec.NormSpec | None,
    pre: bool = False,
) -> spec.StackSpec:
    """Builds the encoder or decoder.

    All layers have a bias; the decoder is causal and attends to the encoder.

    Args:
        config: The config.
        side: "encoder" or "decoder".
        vocabulary: The vocabulary size.
        positions: The position table.
        norm: The norm of the embeddings, if any.
        pre: Norms precede each sublayer and follow the last layer; otherwise they follow the
            residual sums.
    """
    config.only("normalize_before", pre)
    config.only("add_final_layer_norm", pre)
    config.only("static_position_embeddings", positions.layout != "learned")
    config.only("normalize_embedding", norm is not None)
    width = config.integer("d_model", 1024)
    heads = config.integer(f"{side}_attention_heads", 16)
    dropout = config.dropout("dropout", 0.1)
    attention = spec.AttentionSpec(
        heads=heads,
        head_dim=common.head_dim(config, width, heads),
        dropout=config.dropout("attention_dropout", 0.0),
    )
    block = spec.BlockSpec(
        attention=attention,
        cross=attention if side == "decoder" else None,
        ffn=spec.FeedForwardSpec(
            width=config.integer(f"{side}_ffn_dim", 4096),
            activation=common.activation(config, "activation_function", "gelu"),
            dropout=config.dropout("activation_dropout", 0.0),
        ),
        norm=spec.NormSpec(),
        placement="pre" if pre else "post",
        pattern=spec.CAUSAL if side == "decoder" else spec.FULL,
        dropout=dropout,
    )
    embed = spec.TokenEmbeddingSpec(
        vocabulary=vocabulary,
        scale=sqrt(width) if config.flag("scale_embedding", False) else 1.0,
        position=positions,
        norm=norm,
        dropout=dropout,
    )
    return spec.StackSpec(
        width=width,
        embed=embed,
        blocks=(block,) * config.layers(f"{side}_layers", 12),
        final_norm=spec.NormSpec() if pre else None,
        layer_dropout=config.dropout(f"{side}_layerdrop", 0.0),
    )


def ties(stacks: tuple[str, ...], heads: tuple[spec.HeadSpec, ...]) -> tuple[tuple[str, str], ...]:
    """Ties the token embeddings of these stacks and the output layer."""
    names = [f"{name}.embed.token.weight" for name in stacks]
    names += ["heads.lm.out.weight" for head in heads if head.name == "lm"]
    return tuple((names[0], follower) for follower in names[1:])


LAYER, OURS = "{base}{stack}.layers.{i}", "{stack}.blocks.{i}"
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
BODY = (
    WeightRule("{base}{stack}.embed_positions", "{stack}.embed.position"),
    WeightRule("{base}{stack}.layernorm_embedding", "{stack}.embed.norm"),
    *projections(f"{LAYER}.self_attn.", f"{OURS}.attention", *PROJECTIONS),
    WeightRule(f"{LAYER}.self_attn_layer_norm", f"{OURS}.attention_norm"),
    *projections(f"{LAYER}.encoder_attn.", f"{OURS}.cross", *PROJECTIONS),
    WeightRule(f"{LAYER}.encoder_attn_layer_norm", f"{OURS}.cross_norm"),
    WeightRule(f"{LAYER}.fc1", f"{OURS}.ffn.up"),
    WeightRule(f"{LAYER}.fc2", f"{OURS}.ffn.down"),
    WeightRule(f"{LAYER}.final_layer_norm", f"{OURS}.ffn_norm"),
    WeightRule("{base}{stack}.layer_norm", "{stack}.final_norm"),
    WeightRule("lm_head", "heads.lm.out"),
    WeightRule("final_logits_bias", "heads.lm.out.bias", ROW, optional=True),
)
FIXED_POSITIONS = (
    WeightRule("{base}{stack}.embed_positions", "{stack}.embed.position", optional=True),
)


def embeddings(shared: bool) -> tuple[WeightRule, ...]:
    """Returns the rules for the token table: one for both stacks, or one in each."""
    each = WeightRule("{base}{stack}.embed_tokens", "{stack}.embed.token")
    if not shared:
        return (each,)
    once = WeightRule("{base}shared", "encoder.embed.token", also=("{base}encoder.embed_tokens",))
    return (once, each)
