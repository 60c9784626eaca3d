"""BERT (Devlin et al., 2018): an encoder with learned positions, segments and post-norm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from glassformer import spec
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule, projections

NAME = "BERT"
MODEL_TYPES = ("bert",)
HEADS = (
    "ForPreTraining",
    "ForMaskedLM",
    "LMHeadModel",
    "ForNextSentencePrediction",
    "ForSequenceClassification",
    "ForMultipleChoice",
    "ForTokenClassification",
    "ForQuestionAnswering",
)
CLASSES = {"BertModel": "", **{f"Bert{head}": "bert." for head in HEADS}}
IGNORED: Mapping[str, str] = {}
UNUSED_TENSORS = {
    "{base}embeddings.position_ids": "counts from 0, which is computed",
    "{base}embeddings.token_type_ids": "zeros, which are computed",
    "cls.predictions.bias": "a copy of the bias that is not used where weights are not tied",
}
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 99,
    "max_position_embeddings": 160,
}
TINY = (
    SMALL,
    {
        **SMALL,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "hidden_act": "gelu_new",
        "type_vocab_size": 3,
        "layer_norm_eps": 1e-5,
        "num_labels": 5,
        "tie_word_embeddings": False,
    },
    {
        **SMALL,
        "num_hidden_layers": 1,
        "num_attention_heads": 8,
        "hidden_act": "relu",
        "is_decoder": True,
        "add_cross_attention": True,
    },
)
LARGE = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
PRESETS = {"bert-base": ("BertModel", {}), "bert-large": ("BertModel", LARGE)}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    positions = spec.PositionTableSpec(length=config.integer("max_position_embeddings", 512))
    stack = body(config, positions)
    kind = architecture.removeprefix("Bert")
    pooled = heads.pooler(stack.width)
    masked = masked_head(config, stack, common.activation(config, "hidden_act", "gelu"))
    count, dropout = len(common.labels(config)), head_dropout(config)
    next_sentence = replace(pooled, name="next_sentence", num_outputs=2)
    chosen: tuple[spec.HeadSpec, ...] = {
        **heads.encoder_heads(pooled, masked, count, dropout),
        "ForPreTraining": (masked, next_sentence),
        "ForNextSentencePrediction": (next_sentence,),
    }[kind]
    return assemble(config, stack, chosen, common.special_tokens(config, pad=0))


def body(config: ConfigReader, positions: spec.PositionTableSpec) -> spec.StackSpec:
    """Builds the stack of layers."""
    config.only("position_embedding_type", "absolute")
    config.only("pruned_heads", {})
    width = config.integer("hidden_size", 768)
    count = config.integer("num_attention_heads", 12)
    norm = spec.NormSpec(eps=config.eps("layer_norm_eps", 1e-12))
    dropout = config.dropout("hidden_dropout_prob", 0.1)
    attention = spec.AttentionSpec(
        heads=count,
        head_dim=common.head_dim(config, width, count),
        dropout=config.dropout("attention_probs_dropout_prob", 0.1),
    )
    block = spec.BlockSpec(
        attention=attention,
        cross=attention if config.flag("add_cross_attention", False) else None,
        ffn=spec.FeedForwardSpec(
            width=config.integer("intermediate_size", 3072),
            activation=common.activation(config, "hidden_act", "gelu"),
        ),
        norm=norm,
        placement="post",
        pattern=spec.CAUSAL if config.flag("is_decoder", False) else spec.FULL,
        dropout=dropout,
    )
    embed = spec.TokenEmbeddingSpec(
        vocabulary=config.integer("vocab_size", 30522),
        position=positions,
        segments=config.integer("type_vocab_size", 2, least=0),
        norm=norm,
        dropout=dropout,
    )
    layers = config.layers("num_hidden_layers", 12)
    return spec.StackSpec(width=width, embed=embed, blocks=(block,) * layers)


def masked_head(config: ConfigReader, stack: spec.StackSpec, act: spec.Activation) -> spec.HeadSpec:
    norm = spec.NormSpec(eps=config.eps("layer_norm_eps", 1e-12))
    return heads.masked_language_model(stack.embed.vocabulary, stack.width, act, norm)


def head_dropout(config: ConfigReader) -> float:
    return config.dropout("classifier_dropout", config.dropout("hidden_dropout_prob", 0.1))


def assemble(
    config: ConfigReader,
    stack: spec.StackSpec,
    chosen: tuple[spec.HeadSpec, ...],
    tokens: spec.SpecialTokens,
) -> spec.ModelSpec:
    """Builds the model: an encoder, or a decoder if the config makes attention causal."""
    name = "decoder" if stack.attention_blocks[0].pattern == spec.CAUSAL else "encoder"
    return spec.ModelSpec(
        encoder=stack if name == "encoder" else None,
        decoder=stack if name == "decoder" else None,
        heads=chosen,
        tied_weights=heads.tie_head(config, chosen, f"{name}.embed.token.weight"),
        tokens=tokens,
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("initializer_range", 0.02, least=0)),
    )


LAYER, OURS = "{base}encoder.layer.{i}", "{stack}.blocks.{i}"
PROJECTIONS = ("self.query", "self.key", "self.value", "output.dense")
BODY = (
    WeightRule("{base}embeddings.word_embeddings", "{stack}.embed.token"),
    WeightRule("{base}embeddings.position_embeddings", "{stack}.embed.position"),
    WeightRule("{base}embeddings.token_type_embeddings", "{stack}.embed.segment"),
    WeightRule("{base}embeddings.LayerNorm", "{stack}.embed.norm"),
    *projections(f"{LAYER}.attention.", f"{OURS}.attention", *PROJECTIONS),
    WeightRule(f"{LAYER}.attention.output.LayerNorm", f"{OURS}.attention_norm"),
    *projections(f"{LAYER}.crossattention.", f"{OURS}.cross", *PROJECTIONS),
    WeightRule(f"{LAYER}.crossattention.output.LayerNorm", f"{OURS}.cross_norm"),
    WeightRule(f"{LAYER}.intermediate.dense", f"{OURS}.ffn.up"),
    WeightRule(f"{LAYER}.output.dense", f"{OURS}.ffn.down"),
    WeightRule(f"{LAYER}.output.LayerNorm", f"{OURS}.ffn_norm"),
    WeightRule("{base}pooler.dense", "heads.pooler.transform.dense"),
    WeightRule("{base}pooler.dense", "heads.choose.transform.dense"),
    WeightRule("classifier", "heads.choose.out"),
    WeightRule("classifier", "heads.tag.out"),
    WeightRule("qa_outputs", "heads.span.out"),
)


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return (
        *BODY,
        WeightRule("{base}pooler.dense", "heads.classify.transform.dense"),
        WeightRule("{base}pooler.dense", "heads.next_sentence.transform.dense"),
        WeightRule("classifier", "heads.classify.out"),
        WeightRule("cls.seq_relationship", "heads.next_sentence.out"),
        WeightRule("cls.predictions.transform.dense", "heads.lm.transform.dense"),
        WeightRule("cls.predictions.transform.LayerNorm", "heads.lm.transform.norm"),
        heads.masked_bias("cls.predictions.", tied=bool(model.tied_weights)),
        WeightRule("cls.predictions.decoder", "heads.lm.out"),
    )
