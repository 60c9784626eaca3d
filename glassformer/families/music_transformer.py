"""Music Transformer (Huang et al., 2018): a decoder of MIDI events (`signals.midi`).

Attention also scores the distance, with a learned vector per head and distance, by skewing.

The settings are those that Magenta published with it (score2perf), with the widths where keys and
values are as wide as the residual stream. Distances beyond the largest learned one share its
vector.
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

NAME = "Music Transformer"
MODEL_TYPES = ("music-transformer",)
CLASSES = {"MusicTransformerModel": "", "MusicTransformerForCausalLM": "model."}
IGNORED: Mapping[str, str] = {}
UNUSED_TENSORS: Mapping[str, str] = {}
TINY: tuple[dict[str, Any], ...] = (
    {
        "vocab_size": 60,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 160,
        "max_relative_positions": 5,
        "pad_token_id": 57,
        "bos_token_id": 58,
        "eos_token_id": 59,
    },
    {
        "vocab_size": 50,
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "max_position_embeddings": 150,
        "max_relative_positions": 150,
        "heads_share_relative_embedding": True,
        "tie_word_embeddings": True,
        "pad_token_id": 47,
        "bos_token_id": 48,
        "eos_token_id": 49,
    },
)
PRESETS = {
    name: ("MusicTransformerForCausalLM", {"num_hidden_layers": layers})
    for name, layers in (("music-transformer", 6), ("music-transformer-8", 8))
}
DEFAULTS = {  # 388 events and three special tokens
    "vocab_size": 391,
    "pad_token_id": 388,
    "bos_token_id": 389,
    "eos_token_id": 390,
    "intermediate_size": 1024,
    "tie_word_embeddings": False,
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    config = config.with_defaults(DEFAULTS)
    model = tensor2tensor.decoder(config, architecture.removeprefix("MusicTransformer"))
    position = spec.ShawSpec(
        max_distance=config.integer("max_relative_positions", 1024) - 1,
        backward=True,
        per_head=not config.flag("heads_share_relative_embedding", False),
        values=False,
    )
    return each_layer(model, lambda _, block: replace(block, position=position))


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    relative = "{base}layers.{i}.self_attn.relative_embedding"
    return (*tensor2tensor.RULES, WeightRule(relative, "decoder.positions.{i}.keys"))
