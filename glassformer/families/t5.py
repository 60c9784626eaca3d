"""T5 (Raffel et al., 2019): an encoder-decoder with bucketed relative positions, norms that do not
center, no bias anywhere, and scores that are not scaled."""

from __future__ import annotations

from collections.abc import Mapping

from glassformer import spec
from glassformer.errors import GlassformerError
from glassformer.families import common
from glassformer.families.bart import classify_at_end
from glassformer.families.config import Config
from glassformer.families.rules import JOINED, SAME, Rule, projections

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
    "is_encoder_decoder": "the class says what the model is",
    "is_decoder": "the class says what the model is",
    "dense_act_fn": "a copy of what feed_forward_proj says",
    "is_gated_act": "a copy of what feed_forward_proj says",
}
DROPPED = {
    "{base}decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight":
        "cross-attention has no positions",
}
SMALL = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 99,
         "decoder_start_token_id": 0}
TINY = (
    SMALL,
    {**SMALL, "d_model": 24, "d_kv": 16, "num_layers": 1, "num_decoder_layers": 3, "num_heads": 2,
     "feed_forward_proj": "gated-gelu", "relative_attention_num_buckets": 8,
     "relative_attention_max_distance": 20, "layer_norm_epsilon": 1e-5,
     "tie_word_embeddings": False},
    {**SMALL, "feed_forward_proj": "gated-silu", "num_heads": 6},
)
PRESETS = {
    name: ("T5ForConditionalGeneration",
           {"d_model": width, "d_ff": ffn, "num_layers": layers, "num_heads": heads,
            "decoder_start_token_id": 0})
    for name, width, ffn, layers, heads in (
        ("t5-small", 512, 2048, 6, 8),
        ("t5-base", 768, 3072, 12, 12),
        ("t5-large", 1024, 4096, 24, 16),
    )
}


def translate(config: Config, architecture: str) -> spec.ModelSpec:
    kind = architecture.removeprefix("T5")
    encoder = stack(config, "encoder", config.int("num_layers", 6))
    decoder = stack(config, "decoder", config.int("num_decoder_layers", len(encoder.blocks)))
    count = len(common.labels(config))
    dropout = config.float("classifier_dropout", 0.0)
    tied = config.bool("tie_word_embeddings", True)
    scaled = config.bool("scale_decoder_outputs", tied)
    scale = encoder.width**-0.5 if scaled else 1.0
    heads: tuple[spec.Head, ...] = {
        "Model": (),
        "EncoderModel": (),
        "ForConditionalGeneration": (common.language_model(encoder.embed.vocabulary, scale=scale),),
        "ForSequenceClassification": (classify_at_end(encoder.width, count, dropout),),
        "ForTokenClassification": (common.tag(count, dropout),),
        "ForQuestionAnswering": (common.span(),),
    }[kind]
    alone = kind in ("EncoderModel", "ForTokenClassification")
    token, output = "encoder.embed.token.weight", "heads.lm.out.weight"
    tie = ((token, "decoder.embed.token.weight"), (token, output))
    return spec.ModelSpec(
        encoder=encoder,
        decoder=None if alone else decoder,
        heads=heads,
        tie=() if alone else tie if kind == "ForConditionalGeneration" else tie[:1],
        loose=(output,),
        tokens=common.special_tokens(config, pad=0, eos=1),
        labels=common.labels(config),
        shift_text=kind in ("ForSequenceClassification", "ForQuestionAnswering"),
        init=spec.Init(kind="fan_in", std=config.float("initializer_factor", 1.0)),
    )


def stack(config: Config, side: str, layers: int) -> spec.Stack:
    act, gated = feed_forward(config)
    norm = spec.Norm(kind="rms", eps=config.float("layer_norm_epsilon", 1e-6), bias=False)
    dropout = config.float("dropout_rate", 0.1)
    attention = spec.Attention(
        heads=config.int("num_heads", 8),
        head_dim=config.int("d_kv", 64),
        scale=1.0,
        bias=False,
        out_bias=False,
        dropout=dropout,
    )
    block = spec.Block(
        attention=attention,
        cross=attention if side == "decoder" else None,
        ffn=spec.FFN(
            width=config.int("d_ff", 2048), activation=act, gated=gated, bias=False, dropout=dropout
        ),
        norm=norm,
        position=spec.Buckets(
            buckets=config.int("relative_attention_num_buckets", 32),
            max_distance=config.int("relative_attention_max_distance", 128),
            bidirectional=side == "encoder",
        ),
        pattern=spec.CAUSAL if side == "decoder" else spec.FULL,
        dropout=dropout,
    )
    return spec.Stack(
        width=config.int("d_model", 512),
        embed=spec.Embed(vocabulary=config.int("vocab_size", 32128), dropout=dropout),
        blocks=(block,) * layers,
        final_norm=norm,
        dropout=dropout,
    )


def feed_forward(config: Config) -> tuple[spec.Activation, bool]:
    """`relu`, or `gated-gelu`, where gelu means the approximation by tanh."""
    written = config.str("feed_forward_proj", "relu")
    name = written.removeprefix("gated-")
    gated = name != written
    if gated and name == "gelu":
        name = "gelu_new"
    if name not in common.ACTIVATION_NAMES:
        raise GlassformerError(f"config.json has feed_forward_proj = {written!r}, unknown here.")
    return common.ACTIVATION_NAMES[name], gated


def rules(model: spec.ModelSpec) -> tuple[Rule, ...]:
    gated = model.last_stack.blocks[0].ffn.gated

    def parts(stack: str, last: int) -> tuple[Rule, ...]:
        """A block's parts are numbered; the decoder has one more."""
        theirs, ours = f"{{base}}{stack}.block.{{i}}.layer.", f"{stack}.blocks.{{i}}."
        dense = f"{theirs}{last}.DenseReluDense."
        up = (f"{dense}wi_0", f"{dense}wi_1") if gated else f"{dense}wi"
        return (
            *projections(f"{theirs}0.SelfAttention.", f"{ours}attention", "q", "k", "v", "o"),
            Rule(f"{theirs}0.layer_norm", f"{ours}attention_norm"),
            Rule(up, f"{ours}ffn.up", JOINED if gated else SAME),
            Rule(f"{dense}wo", f"{ours}ffn.down"),
            Rule(f"{theirs}{last}.layer_norm", f"{ours}ffn_norm"),
            Rule(f"{{base}}{stack}.block.0.layer.0.SelfAttention.relative_attention_bias",
                 f"{stack}.positions.0"),
            Rule(f"{{base}}{stack}.final_layer_norm", f"{stack}.final_norm"),
        )

    cross = "{base}decoder.block.{i}.layer.1"
    return (
        Rule("{base}shared", "encoder.embed.token", also=("{base}encoder.embed_tokens",)),
        Rule("{base}decoder.embed_tokens", "decoder.embed.token"),
        *parts("encoder", last=1),
        *parts("decoder", last=2),
        *projections(f"{cross}.EncDecAttention.", "decoder.blocks.{i}.cross", "q", "k", "v", "o"),
        Rule(f"{cross}.layer_norm", "decoder.blocks.{i}.cross_norm"),
        Rule("lm_head", "heads.lm.out"),
        Rule("classification_head.dense", "heads.classify.transform.dense"),
        Rule("classification_head.out_proj", "heads.classify.out"),
        Rule("classifier", "heads.tag.out"),
        Rule("qa_outputs", "heads.span.out"),
    )
