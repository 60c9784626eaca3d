"""ALBERT (Lan et al., 2019): BERT with small embeddings and few blocks that run many times."""

from __future__ import annotations

from dataclasses import replace

from glassformer import spec
from glassformer.families import bert
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule, projections

NAME = "ALBERT"
MODEL_TYPES = ("albert",)
HEADS = (
    "ForPreTraining",
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForMultipleChoice",
    "ForTokenClassification",
    "ForQuestionAnswering",
)
CLASSES = {"AlbertModel": "", **{f"Albert{head}": "albert." for head in HEADS}}
IGNORED = {
    **dict.fromkeys(
        ("net_structure_type", "gap_size", "num_memory_blocks", "down_scale_factor"),
        "of the first release's experiments; no published model departs from it",
    ),
}
UNUSED_TENSORS = {
    "{base}embeddings.position_ids": "counts from 0, which is computed",
    "{base}embeddings.token_type_ids": "zeros, which are computed",
    "predictions.bias": "a copy of the bias that is not used where weights are not tied",
}
DEFAULTS = {
    "vocab_size": 30000,
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "intermediate_size": 16384,
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
TINY = (
    {**bert.SMALL, "embedding_size": 12, "num_hidden_layers": 3},
    {
        **bert.SMALL,
        "embedding_size": 24,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_hidden_groups": 2,
        "inner_group_num": 2,
        "num_attention_heads": 2,
        "hidden_act": "relu",
        "type_vocab_size": 3,
        "layer_norm_eps": 1e-5,
        "num_labels": 5,
        "tie_word_embeddings": False,
    },
)
SIZES = {
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
    "xlarge": (2048, 24, 16),
    "xxlarge": (4096, 12, 64),
}
PRESETS = {
    f"albert-{name}": (
        "AlbertForMaskedLM",
        {
            "hidden_size": width,
            "num_hidden_layers": layers,
            "num_attention_heads": count,
            "intermediate_size": 4 * width,
        },
    )
    for name, (width, layers, count) in SIZES.items()
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    config = config.with_defaults(DEFAULTS)
    config.only("is_decoder", False)
    config.only("add_cross_attention", False)
    stack = shared(config)
    narrow, act = (
        stack.token_embedding.embedding_size,
        common.activation(config, "hidden_act", "gelu_new"),
    )
    assert narrow is not None
    norm = stack.attention_blocks[0].norm
    masked = heads.masked_language_model(stack.embed.vocabulary, narrow, act, norm)
    pooled, count = heads.pooler(stack.width), len(common.labels(config))
    dropout = config.dropout("classifier_dropout_prob", 0.1)
    order = replace(pooled, name="sentence_order", num_outputs=count, dropout=dropout)
    chosen: tuple[spec.HeadSpec, ...] = {
        **heads.encoder_heads(pooled, masked, count, dropout),
        "ForPreTraining": (masked, order),
    }[architecture.removeprefix("Albert")]
    return bert.assemble(config, stack, chosen, common.special_tokens(config, pad=0, bos=2, eos=3))


def shared(config: ConfigReader) -> spec.StackSpec:
    """Builds the stack: each group of blocks is used by several consecutive layers.

    A layer runs all blocks of its group.
    """
    plain = bert.body(
        config, spec.PositionTableSpec(length=config.integer("max_position_embeddings", 512))
    )
    layers = len(plain.blocks)
    groups = config.integer("num_hidden_groups", 1)
    inner = config.integer("inner_group_num", 1)
    if inner > 1 and layers <= groups:  # groups and blocks would be indistinguishable
        raise config.wrong("inner_group_num", "1 where there are as many groups as layers")
    firsts = (int(i / (layers / groups)) * inner for i in range(layers))
    return replace(
        plain,
        embed=replace(plain.token_embedding, embedding_size=config.integer("embedding_size", 128)),
        blocks=plain.blocks[:1] * (groups * inner),
        order=tuple(first + j for first in firsts for j in range(inner)),
    )


def block_rules(index: int, inner: int) -> tuple[WeightRule, ...]:
    group, member = divmod(index, inner)
    hf = f"{{base}}encoder.albert_layer_groups.{group}.albert_layers.{member}."
    local = f"encoder.blocks.{index}."
    return (
        *projections(f"{hf}attention.", f"{local}attention", "query", "key", "value", "dense"),
        WeightRule(f"{hf}attention.LayerNorm", f"{local}attention_norm"),
        WeightRule(f"{hf}ffn", f"{local}ffn.up"),
        WeightRule(f"{hf}ffn_output", f"{local}ffn.down"),
        WeightRule(f"{hf}full_layer_layer_norm", f"{local}ffn_norm"),
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    blocks, order = model.last_stack.blocks, model.last_stack.order
    inner = order.index(0, 1) if order.count(0) > 1 else 1  # block 0 recurs with its group
    return (
        *(rule for index in range(len(blocks)) for rule in block_rules(index, inner)),
        WeightRule("{base}encoder.embedding_hidden_mapping_in", "encoder.embed.project"),
        *(
            WeightRule("{base}pooler", f"heads.{name}.transform.dense")
            for name in ("pooler", "choose", "classify", "sentence_order")
        ),
        WeightRule("sop_classifier.classifier", "heads.sentence_order.out"),
        WeightRule("classifier", "heads.classify.out"),
        WeightRule("predictions.dense", "heads.lm.transform.dense"),
        WeightRule("predictions.LayerNorm", "heads.lm.transform.norm"),
        heads.masked_bias("predictions.", tied=bool(model.tied_weights)),
        WeightRule("predictions.decoder", "heads.lm.out"),
        *bert.BODY,
    )
