"""DistilBERT (Sanh et al., 2019): BERT's layers without segments, in its own file layout."""

from __future__ import annotations

from collections.abc import Mapping

from glassformer import spec
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule, projections

NAME = "DistilBERT"
MODEL_TYPES = ("distilbert",)
CLASSES = {
    "DistilBertModel": "",
    "DistilBertForMaskedLM": "distilbert.",
    "DistilBertForSequenceClassification": "distilbert.",
    "DistilBertForMultipleChoice": "distilbert.",
    "DistilBertForTokenClassification": "distilbert.",
    "DistilBertForQuestionAnswering": "distilbert.",
}
IGNORED: Mapping[str, str] = {"qa_dropout": "used in training a span head by the reference alone"}
UNUSED_TENSORS = {"{base}embeddings.position_ids": "counts from 0, which is computed"}
TINY = (
    {
        "dim": 32,
        "n_layers": 2,
        "n_heads": 4,
        "hidden_dim": 64,
        "vocab_size": 99,
        "max_position_embeddings": 160,
    },
    {
        "dim": 24,
        "n_layers": 3,
        "n_heads": 2,
        "hidden_dim": 40,
        "vocab_size": 61,
        "num_labels": 4,
        "max_position_embeddings": 144,
        "activation": "relu",
        "sinusoidal_pos_embds": True,
        "tie_word_embeddings": False,
    },
)
PRESETS: Mapping[str, tuple[str, dict[str, object]]] = {"distilbert": ("DistilBertForMaskedLM", {})}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    config.only("pruned_heads", {})
    width = config.integer("dim", 768)
    count = config.integer("n_heads", 12)
    dropout = config.dropout("dropout", 0.1)
    norm = spec.NormSpec(eps=1e-12)
    act = common.activation(config, "activation", "gelu")
    block = spec.BlockSpec(
        attention=spec.AttentionSpec(
            heads=count,
            head_dim=common.head_dim(config, width, count),
            dropout=config.dropout("attention_dropout", 0.1),
        ),
        ffn=spec.FeedForwardSpec(width=config.integer("hidden_dim", 3072), activation=act),
        norm=norm,
        placement="post",
        dropout=dropout,
    )
    sinusoidal = config.flag("sinusoidal_pos_embds", False)
    positions = spec.PositionTableSpec(
        length=config.integer("max_position_embeddings", 512),
        layout="interleaved" if sinusoidal else "learned",
    )
    vocabulary = config.integer("vocab_size", 30522)
    embed = spec.TokenEmbeddingSpec(
        vocabulary=vocabulary, position=positions, norm=norm, dropout=dropout
    )
    kind = architecture.removeprefix("DistilBert")
    chosen: tuple[spec.HeadSpec, ...] = ()
    classify_dropout = config.dropout("seq_classif_dropout", 0.2)
    if kind != "Model":
        chosen = heads.encoder_heads(
            spec.HeadSpec(
                name="pooler",
                pooling="first",
                transform=spec.TransformSpec(width=width, activation="relu"),
            ),
            heads.masked_language_model(vocabulary, width, act, norm),
            len(common.labels(config)),
            dropout if kind == "ForTokenClassification" else classify_dropout,
        )[kind]
    return spec.ModelSpec(
        encoder=spec.StackSpec(
            width=width, embed=embed, blocks=(block,) * config.layers("n_layers", 6)
        ),
        heads=chosen,
        tied_weights=heads.tie_head(config, chosen, "encoder.embed.token.weight"),
        tokens=common.special_tokens(config, pad=0),
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("initializer_range", 0.02, least=0)),
    )


LAYER, OURS = "{base}transformer.layer.{i}", "encoder.blocks.{i}"
RULES = (
    WeightRule("{base}embeddings.word_embeddings", "encoder.embed.token"),
    WeightRule("{base}embeddings.position_embeddings", "encoder.embed.position"),
    WeightRule("{base}embeddings.LayerNorm", "encoder.embed.norm"),
    *projections(f"{LAYER}.attention.", f"{OURS}.attention", "q_lin", "k_lin", "v_lin", "out_lin"),
    WeightRule(f"{LAYER}.sa_layer_norm", f"{OURS}.attention_norm"),
    WeightRule(f"{LAYER}.ffn.lin1", f"{OURS}.ffn.up"),
    WeightRule(f"{LAYER}.ffn.lin2", f"{OURS}.ffn.down"),
    WeightRule(f"{LAYER}.output_layer_norm", f"{OURS}.ffn_norm"),
    WeightRule("vocab_transform", "heads.lm.transform.dense"),
    WeightRule("vocab_layer_norm", "heads.lm.transform.norm"),
    WeightRule("vocab_projector", "heads.lm.out"),
    WeightRule("pre_classifier", "heads.classify.transform.dense"),
    WeightRule("pre_classifier", "heads.choose.transform.dense"),
    WeightRule("classifier", "heads.classify.out"),
    WeightRule("classifier", "heads.choose.out"),
    WeightRule("classifier", "heads.tag.out"),
    WeightRule("qa_outputs", "heads.span.out"),
)


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return RULES
