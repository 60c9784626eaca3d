"""The Transformer-Decoder (Liu et al., 2018).

Source, separator and target form one sequence, read from left to right, so that a summary is the
continuation of its source text.

T-D is the decoder of 2017 without cross-attention, with tensor2tensor's first settings
(transformer_base_v1: post-norm). T-DMCA handles longer texts by alternating local layers, where a
token attends to its own block, and layers that attend to all tokens through compressed keys; its
settings (transformer_moe) have pre-norm. The mixture of experts of the largest model is not
included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer import spec
from glassformer.families._shared import tensor2tensor
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.llama_like import each_layer
from glassformer.families._shared.weight_rules import WeightRule

NAME = "Transformer-Decoder"
MODEL_TYPES = ("transformer-decoder",)
CLASSES = {"TransformerDecoderModel": "", "TransformerDecoderForCausalLM": "model."}
IGNORED: Mapping[str, str] = {}
UNUSED_TENSORS: Mapping[str, str] = {}
LOCAL, COMPRESSED, FULL = "local_attention", "compressed_attention", "full_attention"
TINY: tuple[dict[str, Any], ...] = (
    {
        "vocab_size": 61,
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "max_position_embeddings": 150,
        "norm_first": True,
        "layer_types": [LOCAL, COMPRESSED, LOCAL],
        "local_block_length": 5,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "sep_token_id": 2,
    },
    {
        "vocab_size": 60,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 160,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "sep_token_id": 2,
    },
    {
        "vocab_size": 50,
        "hidden_size": 32,
        "intermediate_size": 40,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "max_position_embeddings": 150,
        "hidden_act": "gelu",
        "layer_types": [COMPRESSED, FULL, COMPRESSED],
        "compression_factor": 4,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "sep_token_id": 2,
    },
)
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer-decoder": ("TransformerDecoderForCausalLM", {}),
    "transformer-decoder-dmca": (
        "TransformerDecoderForCausalLM",
        {
            "num_hidden_layers": 5,
            "norm_first": True,
            "max_position_embeddings": 11000,
            "layer_types": [LOCAL, COMPRESSED, LOCAL, COMPRESSED, LOCAL],
        },
    ),
}
DEFAULTS = {
    "vocab_size": 32000,
    "max_position_embeddings": 4000,
    "norm_first": False,
    "pad_token_id": 0,
    "eos_token_id": 1,
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    config = config.with_defaults(DEFAULTS)
    model = tensor2tensor.decoder(config, architecture.removeprefix("TransformerDecoder"))
    block = config.integer("local_block_length", 256)
    factor = config.integer("compression_factor", 3)
    layers = len(model.last_stack.blocks)
    kinds = config.items("layer_types", [FULL] * layers, str, "names")
    if len(kinds) != layers or not set(kinds) <= {LOCAL, COMPRESSED, FULL}:
        known = ", ".join((LOCAL, COMPRESSED, FULL))
        raise config.wrong("layer_types", f"one of {known} for each of the {layers} layers")

    def layer(depth: int, plain: spec.BlockSpec) -> spec.BlockSpec:
        if kinds[depth] == LOCAL:
            return replace(plain, pattern=replace(spec.CAUSAL, block=block))
        if kinds[depth] == COMPRESSED:
            return replace(plain, attention=replace(plain.attention, compression_factor=factor))
        return plain

    return each_layer(model, layer)


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    hf, local = "{base}layers.{i}.self_attn.", "decoder.blocks.{i}.attention."
    return (
        *tensor2tensor.RULES,
        *(
            WeightRule(f"{hf}{part}_compress", f"{local}{part}_compress.over_tokens")
            for part in "kv"
        ),
    )
