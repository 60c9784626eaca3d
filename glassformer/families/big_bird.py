"""BigBird (Zaheer et al., 2020): BERT's body with block-sparse attention for long texts.

A block attends to its neighbors, the first and last blocks, and some random ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer import spec
from glassformer.errors import ConfigError
from glassformer.families import bert
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "BigBird"
MODEL_TYPES = ("big_bird",)
HEADS = (
    "ForPreTraining",
    "ForMaskedLM",
    "ForCausalLM",
    "ForSequenceClassification",
    "ForMultipleChoice",
    "ForTokenClassification",
    "ForQuestionAnswering",
)
CLASSES = {"BigBirdModel": "", **{f"BigBird{head}": "bert." for head in HEADS}}
IGNORED: Mapping[str, str] = {}
UNUSED_TENSORS = {
    **bert.UNUSED_TENSORS,
    "{base}pooler.{any}": "a pooler that this class does not read",
}
DEFAULTS = {"vocab_size": 50358, "hidden_act": "gelu_new"}
SMALL = {**bert.SMALL, "block_size": 4, "num_random_blocks": 1}
TINY: tuple[dict[str, Any], ...] = (
    SMALL,
    {
        **SMALL,
        "block_size": 1,
        "num_random_blocks": 2,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "hidden_act": "relu",
        "type_vocab_size": 3,
        "layer_norm_eps": 1e-5,
        "num_labels": 5,
        "tie_word_embeddings": False,
        "use_bias": False,
        "rescale_embeddings": True,
    },
    {
        **SMALL,
        "num_hidden_layers": 1,
        "num_attention_heads": 8,
        "attention_type": "original_full",
        "is_decoder": True,
    },
)
PRESETS = {
    "bigbird-base": ("BigBirdForPreTraining", {}),
    "bigbird-large": ("BigBirdForPreTraining", bert.LARGE),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    config = config.with_defaults(DEFAULTS)
    stack = body(config)
    act = common.activation(config, "hidden_act", "gelu_new")
    pooled, norm = heads.pooler(stack.width), stack.attention_blocks[0].norm
    masked = bert.masked_head(config, stack, act)
    count, dropout = len(common.labels(config)), bert.head_dropout(config)
    classify = spec.TransformSpec(width=stack.width, activation=act)
    search = replace(
        heads.span(),
        transform=spec.TransformSpec(
            width=stack.attention_blocks[0].ffn.width, activation=act, norm=norm, residual=True
        ),
        after_question=True,
        dropout_in=config.dropout("hidden_dropout_prob", 0.1),
    )
    known = heads.encoder_heads(pooled, masked, count, dropout, dropout_in=dropout)
    chosen: tuple[spec.HeadSpec, ...] = {
        **known,
        "ForPreTraining": (masked, replace(pooled, name="next_sentence", num_outputs=2)),
        "ForSequenceClassification": (
            replace(known["ForSequenceClassification"][0], transform=classify),
        ),
        "ForQuestionAnswering": (search,),
    }[architecture.removeprefix("BigBird")]
    tokens = common.special_tokens(config, pad=0, bos=1, eos=2)
    tokens = replace(tokens, separator=config.id("sep_token_id", 66))
    return bert.assemble(config, stack, chosen, tokens)


def body(config: ConfigReader) -> spec.StackSpec:
    # with cross-attention, the reference's self-attention also reads the encoder, unlike in any
    # other family, and its cross-attention reads the encoder's padding
    config.only("add_cross_attention", False)
    stack = bert.body(
        config, spec.PositionTableSpec(length=config.integer("max_position_embeddings", 4096))
    )
    config.only("attention_type", "block_sparse", "original_full")
    blocks = spec.BlockSparsePattern(
        block_size=config.integer("block_size", 64),
        num_random_blocks=config.integer("num_random_blocks", 3, least=0, most=1000),
    )
    block, bias = stack.attention_blocks[0], config.flag("use_bias", True)
    sparse = config.word("attention_type", "block_sparse") == "block_sparse"
    if block.pattern == spec.CAUSAL and sparse:
        raise ConfigError(
            "config.json asks for is_decoder with block-sparse attention, which sees what comes "
            "after a token; set attention_type to 'original_full'."
        )
    block = replace(
        block,
        attention=replace(block.attention, bias=bias),
        pattern=blocks if sparse else block.pattern,
    )
    scale = stack.width**0.5 if config.flag("rescale_embeddings", False) else 1.0
    return replace(
        stack,
        embed=replace(stack.token_embedding, scale=scale),
        blocks=(block,) * len(stack.blocks),
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return (
        *(
            WeightRule("{base}pooler", f"heads.{head}.transform.dense")
            for head in ("pooler", "choose", "next_sentence")
        ),
        WeightRule("classifier.dense", "heads.classify.transform.dense"),
        WeightRule("classifier.out_proj", "heads.classify.out"),
        WeightRule("qa_classifier.intermediate.dense", "heads.span.transform.dense"),
        WeightRule("qa_classifier.output.dense", "heads.span.transform.back"),
        WeightRule("qa_classifier.output.LayerNorm", "heads.span.transform.norm"),
        WeightRule("qa_classifier.qa_outputs", "heads.span.out"),
        *bert.weight_rules(model),
    )
