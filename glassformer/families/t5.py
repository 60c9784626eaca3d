"""T5 (Raffel et al., 2019): an encoder-decoder with bucketed relative positions.

Norms do not center, there is no bias anywhere, and attention scores are not scaled.
"""

from __future__ import annotations

from collections.abc import Mapping

from glassformer import spec
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import JOINED, WeightRule, projections

NAME = "T5"
MODEL_TYPES = ("t5",)
CLASSES = {
    "T5Model": "",
    "T5ForConditionalGeneration": "",
    "T5EncoderModel": "",
    "T5ForSequenceClassification": "transformer.",
    "T5ForTokenClassification": "transformer.",
    "T5ForQuestionAnswering": "",
}
IGNORED: Mapping[str, str] = {
    "n_positions": "relative positions have no last one",
}
UNUSED = "{base}decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
UNUSED_TENSORS = {UNUSED: "cross-attention has no positions"}
SMALL = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "vocab_size": 99,
    "decoder_start_token_id": 0,
}
TINY = (
    SMALL,
    {
        **SMALL,
        "d_model": 24,
        "d_kv": 16,
        "num_layers": 1,
        "num_decoder_layers": 3,
        "num_heads": 2,
        "feed_forward_proj": "gated-gelu",
        "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 20,
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": False,
    },
    {**SMALL, "feed_forward_proj": "gated-silu", "num_heads": 6},
)
GELU = {"gated-gelu": "gelu_new"}  # the activation that T5 files mean by gelu
SIZES = {"t5-small": (512, 6, 8), "t5-base": (768, 12, 12), "t5-large": (1024, 24, 16)}
PRESETS = {
    name: (
        "T5ForConditionalGeneration",
        {
            "d_model": width,
            "d_ff": 4 * width,
            "num_layers": layers,
            "num_heads": count,
            "decoder_start_token_id": 0,
        },
    )
    for name, (width, layers, count) in SIZES.items()
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    tied = config.flag("tie_word_embeddings", True)
    scaled = config.flag("scale_decoder_outputs", tied)
    return assemble(config, architecture.removeprefix("T5"), scaled)


def assemble(config: ConfigReader, kind: str, scaled: bool) -> spec.ModelSpec:
    """Builds both stacks or only the encoder, and the head for the class-name ending `kind`."""
    encoder = stack(config, "encoder", config.layers("num_layers", 6))
    decoder = stack(config, "decoder", config.layers("num_decoder_layers", len(encoder.blocks)))
    count, dropout = len(common.labels(config)), config.dropout("classifier_dropout", 0.0)
    scale = encoder.width**-0.5 if scaled else 1.0
    chosen: tuple[spec.HeadSpec, ...] = {
        "Model": (),
        "EncoderModel": (),
        "ForConditionalGeneration": (heads.language_model(encoder.embed.vocabulary, scale=scale),),
        "ForSequenceClassification": (heads.classify_at_end(encoder.width, count, dropout),),
        "ForTokenClassification": (heads.tag(count, dropout),),
        "ForQuestionAnswering": (heads.span(),),
    }[kind]
    alone = kind in ("EncoderModel", "ForTokenClassification")
    config.only("is_decoder", False, *() if alone else (True,))  # true would make an encoder causal
    config.only("is_encoder_decoder", True, *(False,) if alone else ())  # cross-attention is lost
    token, output = "encoder.embed.token.weight", "heads.lm.out.weight"
    tie = ((token, "decoder.embed.token.weight"), (token, output))
    return spec.ModelSpec(
        encoder=encoder,
        decoder=None if alone else decoder,
        heads=chosen,
        tied_weights=() if alone else tie if kind == "ForConditionalGeneration" else tie[:1],
        optional_ties=(output,),
        tokens=common.special_tokens(config, pad=0, eos=1),
        labels=common.labels(config),
        shift_right=kind in ("ForSequenceClassification", "ForQuestionAnswering"),
        init=spec.InitSpec(kind="fan_in", std=config.number("initializer_factor", 1.0, least=0)),
    )


def stack(config: ConfigReader, side: str, layers: int) -> spec.StackSpec:
    said = config.word("feed_forward_proj", "relu")
    gated = config.flag("is_gated_act", said.startswith("gated-"))
    act = common.activation(config, "dense_act_fn", GELU.get(said, said.removeprefix("gated-")))
    norm = spec.NormSpec(kind="rms", eps=config.eps("layer_norm_epsilon", 1e-6), bias=False)
    dropout = config.dropout("dropout_rate", 0.1)
    count, dim = config.integer("num_heads", 8), config.integer("d_kv", 64)
    attention = spec.AttentionSpec(
        heads=count, head_dim=dim, scale=1.0, bias=False, out_bias=False, dropout=dropout
    )
    ffn = spec.FeedForwardSpec(
        width=config.integer("d_ff", 2048), activation=act, gated=gated, bias=False, dropout=dropout
    )
    block = spec.BlockSpec(
        attention=attention,
        cross=attention if side == "decoder" else None,
        ffn=ffn,
        norm=norm,
        position=spec.T5BiasSpec(
            num_buckets=config.integer("relative_attention_num_buckets", 32),
            max_distance=config.integer("relative_attention_max_distance", 128),
            bidirectional=side == "encoder",
        ),
        pattern=spec.CAUSAL if side == "decoder" else spec.FULL,
        dropout=dropout,
    )
    return spec.StackSpec(
        width=config.integer("d_model", 512),
        embed=spec.TokenEmbeddingSpec(
            vocabulary=config.integer("vocab_size", 32128), dropout=dropout
        ),
        blocks=(block,) * layers,
        final_norm=norm,
        dropout=dropout,
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    cross = "{base}decoder.block.{i}.layer.1"
    return (
        WeightRule("{base}shared", "encoder.embed.token", also=("{base}encoder.embed_tokens",)),
        WeightRule("{base}decoder.embed_tokens", "decoder.embed.token"),
        *stack_rules("encoder", 1, model.last_stack.attention_blocks[0].ffn.gated),
        *stack_rules("decoder", 2, model.last_stack.attention_blocks[0].ffn.gated),
        *projections(f"{cross}.EncDecAttention.", "decoder.blocks.{i}.cross", "q", "k", "v", "o"),
        WeightRule(f"{cross}.layer_norm", "decoder.blocks.{i}.cross_norm"),
        WeightRule("lm_head", "heads.lm.out"),
        WeightRule("classification_head.dense", "heads.classify.transform.dense"),
        WeightRule("classification_head.out_proj", "heads.classify.out"),
        WeightRule("classifier", "heads.tag.out"),
        WeightRule("qa_outputs", "heads.span.out"),
    )


def stack_rules(stack: str, last: int, gated: bool) -> tuple[WeightRule, ...]:
    """Returns the rules of one stack.

    The parts of a block are numbered: attention 0, cross-attention 1 in a decoder, then
    feed-forward.
    """
    hf, local = f"{{base}}{stack}.block.{{i}}.layer.", f"{stack}.blocks.{{i}}."
    dense, first = f"{hf}{last}.DenseReluDense.", f"{{base}}{stack}.block.0.layer.0"
    up = WeightRule((f"{dense}wi_0", f"{dense}wi_1"), f"{local}ffn.up", JOINED)
    return (
        *projections(f"{hf}0.SelfAttention.", f"{local}attention", "q", "k", "v", "o"),
        WeightRule(f"{hf}0.layer_norm", f"{local}attention_norm"),
        up if gated else WeightRule(f"{dense}wi", f"{local}ffn.up"),
        WeightRule(f"{dense}wo", f"{local}ffn.down"),
        WeightRule(f"{hf}{last}.layer_norm", f"{local}ffn_norm"),
        WeightRule(f"{first}.SelfAttention.relative_attention_bias", f"{stack}.positions.0"),
        WeightRule(f"{{base}}{stack}.final_layer_norm", f"{stack}.final_norm"),
    )
