"""ModernBERT (Warner et al., 2024): an encoder with rotary positions and gated feed-forward.

Every third layer has full attention, the others a sliding window. Pre-norm, hardly any bias.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from glassformer import spec
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.rotary import rope_by_layer, rotary_of
from glassformer.families._shared.weight_rules import WeightRule

NAME = "ModernBERT"
MODEL_TYPES = ("modernbert",)
HEADS = (
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForMultipleChoice",
    "ForTokenClassification",
    "ForQuestionAnswering",
)
CLASSES = {"ModernBertModel": "", **{f"ModernBert{head}": "model." for head in HEADS}}
IGNORED = {
    "sparse_prediction": "where the loss is computed",
    "sparse_pred_ignore_index": "where the loss is computed",
    **dict.fromkeys(
        ("deterministic_flash_attn", "reference_compile", "repad_logits_with_grad"),
        "how the reference runs, not what it computes",
    ),
    **dict.fromkeys(("layer_norm_eps", "position_embedding_type"), "left over from BERT"),
    "initializer_cutoff_factor": "fresh weights are drawn without a cut",
    "cls_token_id": "which token a text begins with, read by the tokenizer",
}
UNUSED_TENSORS: dict[str, str] = {}
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 99,
    "pad_token_id": 3,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
    "local_attention": 10,
}
TINY: tuple[dict[str, Any], ...] = (
    SMALL,
    {
        **SMALL,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "hidden_activation": "silu",
        "local_attention": 7,
        "global_attn_every_n_layers": 2,
        "norm_bias": True,
        "attention_bias": True,
        "mlp_bias": True,
        "decoder_bias": False,
        "classifier_bias": True,
        "classifier_activation": "relu",
        "classifier_pooling": "mean",
        "norm_eps": 1e-6,
        "num_labels": 5,
        "tie_word_embeddings": False,
    },
    {
        **SMALL,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 700.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
        },
    },
)
LARGE = {
    "hidden_size": 1024,
    "intermediate_size": 2624,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
}
PRESETS = {
    "modernbert-base": ("ModernBertForMaskedLM", {}),
    "modernbert-large": ("ModernBertForMaskedLM", LARGE),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    encoder, count = body(config), len(common.labels(config))
    words = encoder.embed.vocabulary
    picks: dict[str, Literal["first", "mean"]] = {"cls": "first", "mean": "mean"}
    config.only("classifier_pooling", *picks)
    classify = spec.HeadSpec(
        name="classify",
        pooling=picks[config.word("classifier_pooling", "cls")],
        transform=spec.TransformSpec(
            width=encoder.width,
            activation=common.activation(config, "classifier_activation", "gelu"),
            norm=encoder.final_norm,
            bias=config.flag("classifier_bias", False),
        ),
        num_outputs=count,
        dropout=config.dropout("classifier_dropout", 0.0),
    )
    each = replace(classify, name="tag", pooling="each")
    bias: Literal["learned", "none"] = "learned" if config.flag("decoder_bias", True) else "none"
    chosen: tuple[spec.HeadSpec, ...] = {
        "Model": (),
        "ForMaskedLM": (replace(each, name="lm", num_outputs=words, bias=bias, dropout=0.0),),
        "ForSequenceClassification": (classify,),
        "ForMultipleChoice": (
            replace(classify, name="choose", num_outputs=1, multiple_choice=True),
        ),
        "ForTokenClassification": (each,),
        "ForQuestionAnswering": (replace(each, name="span", num_outputs=2),),
    }[architecture.removeprefix("ModernBert")]
    return spec.ModelSpec(
        encoder=encoder,
        heads=chosen,
        tied_weights=heads.tie_head(config, chosen, "encoder.embed.token.weight"),
        tokens=common.special_tokens(config, pad=50283, bos=50281, eos=50282),
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("initializer_range", 0.02, least=0)),
    )


def body(config: ConfigReader) -> spec.StackSpec:
    width = config.integer("hidden_size", 768)
    norm = spec.NormSpec(eps=config.eps("norm_eps", 1e-5), bias=config.flag("norm_bias", False))
    layers = range(config.layers("num_hidden_layers", 22))
    every = config.integer("global_attn_every_n_layers", 3)
    default = ["sliding_attention" if i % every else "full_attention" for i in layers]
    kinds = config.items("layer_types", default, str, "names")
    if len(kinds) != len(layers) or not {"sliding_attention", "full_attention"}.issuperset(kinds):
        raise config.wrong("layer_types", "sliding_attention or full_attention for every layer")
    vocabulary, dropout = (
        config.integer("vocab_size", 50368),
        config.dropout("embedding_dropout", 0),
    )
    return spec.StackSpec(
        width=width,
        embed=spec.TokenEmbeddingSpec(vocabulary=vocabulary, norm=norm, dropout=dropout),
        blocks=tuple(block(config, i, kinds[i], width, norm) for i in layers),
        final_norm=norm,
    )


def block(
    config: ConfigReader, layer: int, kind: str, width: int, norm: spec.NormSpec
) -> spec.BlockSpec:
    """Builds one layer; the first has no attention norm: its input is already normalized."""
    heads, bias = config.integer("num_attention_heads", 12), config.flag("attention_bias", False)
    dim = common.head_dim(config, width, heads, "head_dim")
    reach = config.integer("sliding_window", config.integer("local_attention", 128) // 2)
    thetas = {
        "full_attention": config.positive("global_rope_theta", 160_000.0),
        "sliding_attention": config.positive("local_rope_theta", 10_000.0),
    }
    turns = {"rope_theta": thetas[kind], **rope_by_layer(config).get(kind, {})}
    turns |= config.table("rope_scaling")
    drop, local = config.dropout("attention_dropout", 0.0), kind == "sliding_attention"
    return spec.BlockSpec(
        attention=spec.AttentionSpec(
            heads=heads, head_dim=dim, bias=bias, out_bias=bias, dropout=drop
        ),
        ffn=spec.FeedForwardSpec(
            width=config.integer("intermediate_size", 1152),
            activation=common.activation(config, "hidden_activation", "gelu"),
            gated=True,
            bias=config.flag("mlp_bias", False),
            dropout=config.dropout("mlp_dropout", 0.0),
        ),
        norm=norm,
        attention_normed=layer > 0,
        position=rotary_of(config, turns, dim, config.integer("max_position_embeddings", 8192)),
        pattern=spec.AttentionPattern(left=reach, right=reach) if local else spec.FULL,
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    hf, local = "{base}layers.{i}", "encoder.blocks.{i}"
    return (
        WeightRule("{base}embeddings.tok_embeddings", "encoder.embed.token"),
        WeightRule("{base}embeddings.norm", "encoder.embed.norm"),
        WeightRule(f"{hf}.attn_norm", f"{local}.attention_norm"),
        WeightRule(f"{hf}.attn.Wqkv", f"{local}.attention.qkv"),
        WeightRule(f"{hf}.attn.Wo", f"{local}.attention.out"),
        WeightRule(f"{hf}.mlp_norm", f"{local}.ffn_norm"),
        WeightRule(f"{hf}.mlp.Wi", f"{local}.ffn.up"),
        WeightRule(f"{hf}.mlp.Wo", f"{local}.ffn.down"),
        WeightRule("{base}final_norm", "encoder.final_norm"),
        WeightRule("head.dense", "heads.{name}.transform.dense"),
        WeightRule("head.norm", "heads.{name}.transform.norm"),
        WeightRule("decoder", "heads.lm.out"),
        WeightRule("classifier", "heads.{name}.out"),
    )
