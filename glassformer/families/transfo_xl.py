"""Transformer-XL (Dai et al., 2019): a decoder with a memory of earlier segments.

Relative positions, and adaptive embeddings and softmax: rare words are in clusters with smaller
vectors.
"""

from __future__ import annotations

import math

from glassformer import spec
from glassformer.families._shared import common, heads
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "Transformer-XL"
MODEL_TYPES = ("transfo-xl",)
HEADS = ("LMHeadModel", "ForSequenceClassification")
CLASSES = {"TransfoXLModel": "", **{f"TransfoXL{head}": "transformer." for head in HEADS}}
IGNORED = {
    **dict.fromkeys(
        ("init", "init_range", "proj_init_std"), "fresh weights are all drawn with init_std"
    ),
    **dict.fromkeys(("tgt_len", "ext_len"), "how long the segments of training were"),
    "adaptive": "the softmax is adaptive, whatever it says",
    "trainer_compatible": "how the reference returns its loss",
}
UNUSED_TENSORS = {"{base}pos_emb.inv_freq": "frequencies of sinusoids, which are computed"}
SMALL = {
    "vocab_size": 99,
    "cutoffs": [20, 50],
    "d_model": 32,
    "d_embed": 32,
    "n_head": 4,
    "d_head": 8,
    "d_inner": 64,
    "n_layer": 2,
    "div_val": 2,
    "mem_len": 6,
    "clamp_len": 9,
}
TINY = (
    SMALL,
    {
        **SMALL,
        "d_model": 24,
        "d_embed": 16,
        "n_head": 2,
        "d_head": 7,
        "n_layer": 3,
        "div_val": 1,
        "pre_lnorm": True,
        "untie_r": False,
        "same_length": False,
        "clamp_len": -1,
        "num_labels": 5,
        "tie_word_embeddings": False,
        "layer_norm_epsilon": 1e-6,
    },
    {
        **SMALL,
        "cutoffs": [],
        "n_layer": 1,
        "mem_len": 0,
        "same_length": False,
        "div_val": 1,
        "proj_share_all_but_first": False,
    },
)
BASE = {
    "d_model": 410,
    "d_embed": 410,
    "n_head": 10,
    "d_head": 41,
    "d_inner": 2100,
    "n_layer": 16,
    "div_val": 1,
    "mem_len": 150,
    "clamp_len": -1,
    "same_length": False,
}
PRESETS = {
    "transfo-xl-wt103": ("TransfoXLLMHeadModel", {}),
    "transfo-xl-base": ("TransfoXLLMHeadModel", BASE),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    clusters = spec.AdaptiveSpec(
        cutoffs=tuple(config.items("cutoffs", [20000, 40000, 200000], int, "token ids")),
        width=config.integer("d_embed", 1024),
        div_value=config.integer("div_val", 4),
    )
    stack, ties = body(config, clusters), tied(config, clusters)
    lm = spec.HeadSpec(name="lm", num_outputs=stack.embed.vocabulary, adaptive=clusters)
    chosen: tuple[spec.HeadSpec, ...] = {
        "Model": (),
        "LMHeadModel": (lm,),
        "ForSequenceClassification": (heads.classify_last(len(common.labels(config))),),
    }[architecture.removeprefix("TransfoXL")]
    return spec.ModelSpec(
        decoder=stack,
        heads=chosen,
        tied_weights=ties if chosen == (lm,) else (),
        tokens=common.special_tokens(config, eos=0),
        labels=common.labels(config),
        init=spec.InitSpec(std=config.number("init_std", 0.02, least=0)),
    )


def body(config: ConfigReader, clusters: spec.AdaptiveSpec) -> spec.StackSpec:
    config.only("attn_type", 0)
    config.only("sample_softmax", -1, 0)
    width, memory = config.integer("d_model", 1024), config.integer("mem_len", 1600, least=0)
    dropout, clamp = config.dropout("dropout", 0.1), config.integer("clamp_len", 1000, least=-1)
    same_length, one_table = config.flag("same_length", True), clusters.div_value == 1
    if same_length and memory < 1:
        raise config.wrong("mem_len", "above 0 where same_length is true")
    block = spec.BlockSpec(
        attention=spec.AttentionSpec(
            heads=config.integer("n_head", 16),
            head_dim=config.integer("d_head", 64),
            bias=False,
            out_bias=False,
            dropout=config.dropout("dropatt", 0.0),
        ),
        ffn=spec.FeedForwardSpec(
            width=config.integer("d_inner", 4096), activation="relu", dropout=dropout
        ),
        norm=spec.NormSpec(eps=config.eps("layer_norm_epsilon", 1e-5)),
        placement="pre" if config.flag("pre_lnorm", False) else "post",
        position=spec.RelativePositionSpec(
            clamp_length=clamp if clamp > 0 else None,
            shared_biases=not config.flag("untie_r", True),
        ),
        pattern=spec.AttentionPattern(left=memory - 1, right=0) if same_length else spec.CAUSAL,
        dropout=dropout,
    )
    embed = spec.TokenEmbeddingSpec(
        vocabulary=config.integer("vocab_size", 267735),
        adaptive=None if one_table else clusters,
        embedding_size=clusters.width if one_table and clusters.width != width else None,
        project="token",
        scale=math.sqrt(width),
        dropout=dropout,
    )
    return spec.StackSpec(
        width=width,
        embed=embed,
        blocks=(block,) * config.layers("n_layer", 18),
        dropout=dropout,
        memory=spec.MemorySpec(length=memory, zero_initialized=True),
    )


def tied(config: ConfigReader, clusters: spec.AdaptiveSpec) -> tuple[tuple[str, str], ...]:
    """Returns the ties between softmax and embedding.

    They share their tables, and by default the projections of all clusters but the first.
    """
    config.only("tie_weight", True)
    tables, projects = ("decoder.embed.token.tables.{}", "decoder.embed.token.projects.{}")
    several = range(len(clusters.cutoffs) + 1)
    if one_table := clusters.div_value == 1:
        tables, projects = "decoder.embed.token", "decoder.embed.project"
    whole = config.flag("tie_word_embeddings", True)
    others = config.flag("proj_share_all_but_first", True)
    shared = config.items(
        "tie_projs", [False] + [others] * len(clusters.cutoffs), bool, "true and false"
    )[: len(several)]
    narrow = not one_table or clusters.width != config.integer("d_model", 1024)
    pairs = [(tables, "tables", i) for i in (several[:1] if one_table else several) if whole]
    pairs += [(projects, "projects", i) for i, same in enumerate(shared) if narrow and same]
    return tuple(
        (f"{kept.format(i)}.weight", f"heads.lm.out.{part}.{i}.weight") for kept, part, i in pairs
    )


LAYER, OURS, WORDS = "{base}layers.{i}", "decoder.blocks.{i}", "{base}word_emb.emb"
BIASES = {"r_w_bias": "content", "r_r_bias": "position"}


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    blocks = model.last_stack.attention_blocks
    layers, position = range(len(blocks)), blocks[0].position
    assert isinstance(position, spec.RelativePositionSpec)
    biases = [
        WeightRule(f"{LAYER}.dec_attn.{hf}", f"decoder.positions.{{i}}.{local}")
        for hf, local in BIASES.items()
    ]
    if position.shared_biases:  # stored once; older files repeat it in every layer
        biases = [
            WeightRule(
                f"{{base}}{hf}",
                f"decoder.positions.0.{local}",
                also=tuple(f"{{base}}layers.{i}.dec_attn.{hf}" for i in layers),
            )
            for hf, local in BIASES.items()
        ]
    return (
        *biases,
        WeightRule(f"{WORDS}_layers.0", "decoder.embed.token"),
        WeightRule(f"{WORDS}_projs.0", "decoder.embed.project.weight"),
        WeightRule(f"{WORDS}_layers.{{i}}", "decoder.embed.token.tables.{i}"),
        WeightRule(f"{WORDS}_projs.{{i}}", "decoder.embed.token.projects.{i}.weight"),
        WeightRule(f"{LAYER}.dec_attn.qkv_net", f"{OURS}.attention.qkv"),
        WeightRule(f"{LAYER}.dec_attn.r_net", f"{OURS}.attention.position_key"),
        WeightRule(f"{LAYER}.dec_attn.o_net", f"{OURS}.attention.out"),
        WeightRule(f"{LAYER}.dec_attn.layer_norm", f"{OURS}.attention_norm"),
        WeightRule(f"{LAYER}.pos_ff.CoreNet.0", f"{OURS}.ffn.up"),
        WeightRule(f"{LAYER}.pos_ff.CoreNet.3", f"{OURS}.ffn.down"),
        WeightRule(f"{LAYER}.pos_ff.layer_norm", f"{OURS}.ffn_norm"),
        WeightRule("crit.cluster_weight", "heads.lm.out.rarer.weight"),
        WeightRule("crit.cluster_bias", "heads.lm.out.rarer.bias"),
        WeightRule("crit.out_layers.{i}", "heads.lm.out.tables.{i}"),
        WeightRule("crit.out_projs.{i}", "heads.lm.out.projects.{i}.weight"),
        WeightRule("score", "heads.classify.out"),
    )
