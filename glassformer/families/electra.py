"""ELECTRA (Clark et al., 2020): BERT's body with small embeddings.

A small generator replaces tokens; the main model predicts for each token whether it was replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from glassformer import spec
from glassformer.families import bert
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "ELECTRA"
MODEL_TYPES = ("electra",)
HEADS = (
    "ForPreTraining",
    "ForMaskedLM",
    "ForCausalLM",
    "ForSequenceClassification",
    "ForMultipleChoice",
    "ForTokenClassification",
    "ForQuestionAnswering",
)
CLASSES = {"ElectraModel": "", **{f"Electra{head}": "electra." for head in HEADS}}
IGNORED: Mapping[str, str] = {}
UNUSED_TENSORS = {
    "{base}embeddings.position_ids": "counts from 0, which is computed",
    "{base}embeddings.token_type_ids": "zeros, which are computed",
}
DEFAULTS = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
TINY = (
    {**bert.SMALL, "embedding_size": 16},
    {
        **bert.SMALL,
        "hidden_size": 24,
        "embedding_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "hidden_act": "relu",
        "type_vocab_size": 3,
        "layer_norm_eps": 1e-5,
        "num_labels": 5,
        "tie_word_embeddings": False,
        "summary_activation": "tanh",
    },
    {
        **bert.SMALL,
        "embedding_size": 12,
        "num_hidden_layers": 1,
        "num_attention_heads": 8,
        "is_decoder": True,
        "add_cross_attention": True,
    },
)
BASE = {
    "embedding_size": 768,
    "hidden_size": 768,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}
PRESETS = {
    "electra-small": ("ElectraForPreTraining", {}),
    "electra-base": ("ElectraForPreTraining", BASE),
    "electra-large": ("ElectraForPreTraining", {**bert.LARGE, "embedding_size": 1024}),
    "electra-small-generator": ("ElectraForMaskedLM", {}),
    "electra-base-generator": ("ElectraForMaskedLM", {**DEFAULTS, "embedding_size": 768}),
    "electra-large-generator": (
        "ElectraForMaskedLM",
        {**DEFAULTS, "embedding_size": 1024, "num_hidden_layers": 24},
    ),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    config = config.with_defaults(DEFAULTS)
    config.only("summary_proj_to_labels", False)
    stack = bert.body(
        config, spec.PositionTableSpec(length=config.integer("max_position_embeddings", 512))
    )
    narrow = config.integer("embedding_size", 128)
    if narrow != stack.width:
        stack = replace(stack, embed=replace(stack.token_embedding, embedding_size=narrow))
    masked = heads.masked_language_model(
        stack.embed.vocabulary, narrow, "gelu", stack.attention_blocks[0].norm
    )
    replaced = spec.HeadSpec(
        name="replaced",
        transform=spec.TransformSpec(
            width=stack.width, activation=common.activation(config, "hidden_act", "gelu")
        ),
        num_outputs=1,
        scalar=True,
    )
    pooled = replace(
        heads.pooler(stack.width),
        transform=spec.TransformSpec(width=stack.width, activation="gelu"),
    )
    dropout = bert.head_dropout(config)
    chosen: tuple[spec.HeadSpec, ...] = {
        **heads.encoder_heads(pooled, masked, len(common.labels(config)), dropout, dropout),
        "Model": (),
        "ForPreTraining": (replaced,),
        "ForMultipleChoice": (choose(config, stack.width),),
    }[architecture.removeprefix("Electra")]
    return bert.assemble(config, stack, chosen, common.special_tokens(config, pad=0))


def choose(config: ConfigReader, width: int) -> spec.HeadSpec:
    """Multiple choice: a dense layer of this width on the vector of each candidate text."""
    picks: dict[str, Literal["last", "first", "mean"]] = {
        "first": "first",
        "last": "last",
        "cls_index": "last",
        "mean": "mean",
    }
    config.only("summary_type", *picks)
    config.only("summary_use_proj", True)
    act = common.activation(config, "summary_activation", "gelu")
    return spec.HeadSpec(
        name="choose",
        pooling=picks[config.word("summary_type", "first")],
        transform=spec.TransformSpec(width=width, activation=act),
        num_outputs=1,
        multiple_choice=True,
        dropout_in=config.dropout("summary_first_dropout", 0.0),
        dropout=config.dropout("summary_last_dropout", 0.1),
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return (
        WeightRule("{base}embeddings_project", "{stack}.embed.project"),
        WeightRule("sequence_summary.summary", "heads.choose.transform.dense"),
        WeightRule("classifier.dense", "heads.classify.transform.dense"),
        WeightRule("classifier.out_proj", "heads.classify.out"),
        WeightRule("discriminator_predictions.dense", "heads.replaced.transform.dense"),
        WeightRule("discriminator_predictions.dense_prediction", "heads.replaced.out"),
        WeightRule("generator_predictions.dense", "heads.lm.transform.dense"),
        WeightRule("generator_predictions.LayerNorm", "heads.lm.transform.norm"),
        WeightRule("generator_lm_head", "heads.lm.out"),
        *bert.BODY,
    )
