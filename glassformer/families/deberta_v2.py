"""DeBERTa v2 and v3 (He et al., 2021): BERT with disentangled attention.

Content and position attend to each other; v2 also has a convolution parallel to the first layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from glassformer import spec
from glassformer.families import bert
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule, projections

NAME = "DeBERTa v2, v3"
MODEL_TYPES = ("deberta-v2",)
HEADS = (
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
)
CLASSES = {
    "DebertaV2Model": "",
    **{f"DebertaV2{head}": "deberta." for head in (*HEADS, "ForMultipleChoice")},
}
IGNORED: Mapping[str, str] = {"attention_head_size": "the width over the heads"}
UNUSED_TENSORS = {
    "{base}embeddings.position_ids": "counts from 0, which is computed",
    "{base}embeddings.position_embeddings.weight": "off by position_biased_input = false",
    "cls.predictions.bias": "a copy of the bias that is not used where weights are not tied",
    "mask_predictions.{any}": "a head of pre-training that no class has",
    "lm_predictions.{any}": "the head that ForMaskedLM has with legacy = false",
}
DEFAULTS = {
    "vocab_size": 128100,
    "hidden_size": 1536,
    "num_hidden_layers": 24,
    "num_attention_heads": 24,
    "intermediate_size": 6144,
    "layer_norm_eps": 1e-7,
    "type_vocab_size": 0,
}
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 99,
    "max_position_embeddings": 160,
    "relative_attention": True,
    "pos_att_type": "p2c|c2p",
}
TINY = (
    {
        **SMALL,
        "position_buckets": 8,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
        "max_relative_positions": -1,
    },
    {
        **SMALL,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "hidden_act": "relu",
        "type_vocab_size": 2,
        "max_relative_positions": 20,
        "share_att_key": False,
        "conv_kernel_size": 3,
        "conv_act": "gelu",
        "num_labels": 5,
    },
    {
        **SMALL,
        "pos_att_type": ["c2p"],
        "position_buckets": 12,
        "share_att_key": True,
        "legacy": False,
        "conv_kernel_size": 5,
        "conv_groups": 2,
        "pooler_hidden_act": "tanh",
    },
)
V3 = {
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
}
PRESETS = {
    name: (
        "DebertaV2Model",
        {
            **V3,
            "hidden_size": width,
            "num_hidden_layers": layers,
            "num_attention_heads": width // 64,
            "intermediate_size": 4 * width,
        },
    )
    for name, width, layers in (
        ("deberta-v3-small", 768, 6),
        ("deberta-v3-base", 768, 12),
        ("deberta-v3-large", 1024, 24),
    )
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    config = config.with_defaults(DEFAULTS)
    return with_head(config, architecture.removeprefix("DebertaV2"), body(config))


def with_head(config: ConfigReader, kind: str, stack: spec.StackSpec) -> spec.ModelSpec:
    config.only("embedding_size", stack.width)
    config.only("pooler_hidden_size", stack.width)
    pooled = heads.pooler(stack.width, common.activation(config, "pooler_hidden_act", "gelu"))
    masked = bert.masked_head(config, stack, common.activation(config, "hidden_act", "gelu"))
    if not config.flag("legacy", True):
        masked = replace(masked, name="enhanced_lm")
    dropout = config.dropout("cls_dropout", config.dropout("hidden_dropout_prob", 0.1))
    chosen = heads.encoder_heads(
        pooled, masked, len(common.labels(config)), dropout, config.dropout("pooler_dropout", 0.0)
    )[kind]
    model = bert.assemble(config, stack, chosen, common.special_tokens(config, pad=0))
    if masked.name == "enhanced_lm" and chosen == (masked,):
        return replace(
            model, tied_weights=(("encoder.embed.token.weight", "heads.enhanced_lm.out.weight"),)
        )
    return replace(model, heads=()) if kind == "Model" else model  # the bare model has no pooler


def body(config: ConfigReader) -> spec.StackSpec:
    longest = config.integer("max_position_embeddings", 512)
    stack = bert.body(config, spec.PositionTableSpec(length=longest))
    block = stack.attention_blocks[0]
    position, terms = positions(config, longest, block.norm)
    scale = (block.attention.head_dim * (1 + terms)) ** -0.5
    block = replace(block, attention=replace(block.attention, scale=scale), position=position)
    biased = config.flag("position_biased_input", True)
    kernel = config.integer("conv_kernel_size", 0, least=0)
    near = spec.ConvolutionSpec(
        kernel=max(kernel, 1),
        groups=config.integer("conv_groups", 1),
        activation=common.activation(config, "conv_act", "tanh"),
        norm=block.norm,
    )
    embed = replace(stack.token_embedding, zero_padding=True)
    return replace(
        stack,
        embed=embed if biased else replace(embed, position=None),
        blocks=(block,) * len(stack.blocks),
        convolution=near if kernel else None,
    )


def positions(
    config: ConfigReader, longest: int, norm: spec.NormSpec
) -> tuple[spec.PositionSpec | None, int]:
    """Returns the position specification, and how many position terms the score scale counts."""
    written = config.optional("pos_att_type", [])
    if isinstance(written, str):
        kinds = [kind.strip() for kind in written.lower().split("|")]
    else:
        kinds = config.items("pos_att_type", [], str, "names")
    farthest = config.integer("max_relative_positions", -1, least=-1)
    farthest = longest if farthest < 1 else farthest
    buckets = config.integer("position_buckets", -1, least=-1)
    normed = "layer_norm" in config.word("norm_rel_ebd", "none").lower()
    shared = config.flag("share_att_key", False)
    terms = len({"c2p", "p2c"} & set(kinds))
    if not config.flag("relative_attention", False):
        return None, terms
    return spec.DisentangledSpec(
        span=buckets if buckets > 0 else farthest,
        max_distance=farthest if buckets > 0 else None,
        content_to_position="c2p" in kinds,
        position_to_content="p2c" in kinds,
        shared_projections=shared,
        norm=norm if normed else None,
    ), terms


LAYER, OURS = "{base}encoder.layer.{i}.attention", "encoder.blocks.{i}.attention"
PARTS = ("self.query_proj", "self.key_proj", "self.value_proj", "output.dense")
RULES = (
    WeightRule("{base}encoder.rel_embeddings", "encoder.positions.0"),
    WeightRule("{base}encoder.LayerNorm", "encoder.positions.0.norm"),
    WeightRule("{base}encoder.conv.conv", "encoder.convolution.over_tokens"),
    WeightRule("{base}encoder.conv.LayerNorm", "encoder.convolution.norm"),
    *projections(f"{LAYER}.", OURS, *PARTS),
    WeightRule(f"{LAYER}.self.pos_key_proj", f"{OURS}.position_key"),
    WeightRule(f"{LAYER}.self.pos_query_proj", f"{OURS}.position_query"),
    *(
        WeightRule("pooler.dense", f"heads.{head}.transform.dense")
        for head in ("classify", "choose")
    ),
    WeightRule("classifier", "heads.classify.out"),
    *bert.BODY,
)


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return (
        *RULES,
        WeightRule("cls.predictions.transform.dense", "heads.lm.transform.dense"),
        WeightRule("cls.predictions.transform.LayerNorm", "heads.lm.transform.norm"),
        heads.masked_bias("cls.predictions.", tied=bool(model.tied_weights)),
        WeightRule("cls.predictions.decoder", "heads.lm.out"),
        WeightRule("lm_predictions.lm_head.dense", "heads.enhanced_lm.transform.dense"),
        WeightRule("lm_predictions.lm_head.LayerNorm", "heads.enhanced_lm.transform.norm"),
        WeightRule("lm_predictions.lm_head.bias", "heads.enhanced_lm.out.bias"),
        WeightRule("lm_predictions.lm_head.weight", "heads.enhanced_lm.out.weight"),
    )
