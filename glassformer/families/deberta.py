"""DeBERTa (He et al., 2020): disentangled attention between content and position.

Content and position have separate projection matrices. In the file, query, key and value are
interleaved by head. Keys have no bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from glassformer import spec
from glassformer.families import bert, deberta_v2
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import JOINED, Interleave, WeightRule

NAME = "DeBERTa"
MODEL_TYPES = ("deberta",)
CLASSES = {"DebertaModel": "", **{f"Deberta{head}": "deberta." for head in deberta_v2.HEADS}}
IGNORED: Mapping[str, str] = {}
UNUSED_TENSORS = {
    **deberta_v2.UNUSED_TENSORS,
    "{base}encoder.layer.{i}.attention.self.position_ids": "counts from 0, which is computed",
}
TINY = (
    {**deberta_v2.SMALL, "max_relative_positions": -1, "position_biased_input": False},
    {
        **deberta_v2.SMALL,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "hidden_act": "relu",
        "type_vocab_size": 2,
        "max_relative_positions": 20,
        "num_labels": 5,
        "pos_att_type": "c2p",
        "legacy": False,
    },
)
BASE = {"relative_attention": True, "pos_att_type": "c2p|p2c", "position_biased_input": False}
PRESETS = {
    "deberta-base": ("DebertaModel", BASE),
    "deberta-large": ("DebertaModel", {**BASE, **bert.LARGE}),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    config.only("talking_head", False)
    config = config.with_defaults(
        {"vocab_size": 50265, "layer_norm_eps": 1e-7, "type_vocab_size": 0}
    )
    stack = deberta_v2.body(config)
    block = stack.attention_blocks[0]
    block = replace(block, attention=replace(block.attention, key_bias=False))
    if isinstance(block.position, spec.DisentangledSpec):
        block = replace(
            block, position=replace(block.position, shared_projections=False, key_bias=False)
        )
    stack = replace(stack, blocks=(block,) * len(stack.blocks))
    return deberta_v2.with_head(config, architecture.removeprefix("Deberta"), stack)


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    hf, local = "{base}encoder.layer.{i}.attention.self", "encoder.blocks.{i}.attention"
    woven = Interleave(model.last_stack.attention_blocks[0].attention.head_dim)
    return (
        WeightRule(f"{hf}.in_proj.weight", f"{local}.qkv.weight", woven),
        WeightRule((f"{hf}.q_bias", f"{hf}.v_bias"), f"{local}.qkv.bias", JOINED),
        WeightRule(f"{hf}.pos_proj", f"{local}.position_key"),
        WeightRule(f"{hf}.pos_q_proj", f"{local}.position_query"),
        *deberta_v2.weight_rules(model),
    )
