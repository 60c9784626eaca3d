"""GPT-3 (Brown et al., 2020): GPT-2 where every second layer attends to a local band of tokens.

No weights were published; the sizes are those of the paper's table 2.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer import spec
from glassformer.families import gpt2
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "GPT-3"
MODEL_TYPES = ("gpt3",)
CLASSES = {"GPT3LMHeadModel": "transformer."}
IGNORED = gpt2.IGNORED
UNUSED_TENSORS: Mapping[str, str] = {}
TINY: tuple[dict[str, Any], ...] = (
    {
        "vocab_size": 60,
        "n_positions": 160,
        "n_embd": 32,
        "n_layer": 4,
        "n_head": 4,
        "head_dim": 8,
        "window": 5,
        "bos_token_id": 58,
        "eos_token_id": 59,
    },
    {
        "vocab_size": 50,
        "n_positions": 200,
        "n_embd": 24,
        "n_layer": 3,
        "n_head": 2,
        "head_dim": 16,
        "window": 32,
        "bos_token_id": 48,
        "eos_token_id": 49,
    },
)
TABLE = {  # layers, width, heads, head size
    "gpt3-small": (12, 768, 12, 64),
    "gpt3-medium": (24, 1024, 16, 64),
    "gpt3-large": (24, 1536, 16, 96),
    "gpt3-xl": (24, 2048, 24, 128),
    "gpt3-2.7b": (32, 2560, 32, 80),
    "gpt3-6.7b": (32, 4096, 32, 128),
    "gpt3-13b": (40, 5140, 40, 128),
    "gpt3-175b": (96, 12288, 96, 128),
}
PRESETS = {
    name: (
        "GPT3LMHeadModel",
        {"n_layer": layers, "n_embd": width, "n_head": count, "head_dim": dim, "n_positions": 2048},
    )
    for name, (layers, width, count, dim) in TABLE.items()
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    """Builds the model.

    The head size is a separate setting, because in the table the heads do not always add up to the
    width.
    """
    dim = config.integer(
        "head_dim", config.integer("n_embd", 768) // config.integer("n_head", 12) or 1
    )
    band = spec.AttentionPattern(left=config.integer("window", 256) - 1, right=0)
    count = config.integer("n_head", 12)
    plain = ConfigReader({**config.values, "n_head": 1}, NAME)
    model = gpt2.spec_from_config(plain, "GPT2LMHeadModel")
    config.used |= plain.used
    assert model.decoder is not None

    def layer(depth: int, block: spec.BlockSpec) -> spec.BlockSpec:
        attention = replace(block.attention, heads=count, head_dim=dim, scale=dim**-0.5)
        pattern = band if depth % 2 else spec.CAUSAL
        return replace(block, attention=attention, pattern=pattern)

    dense = model.decoder.attention_blocks
    blocks = tuple(layer(depth, block) for depth, block in enumerate(dense))
    embed = replace(model.decoder.token_embedding, segments_are_tokens=False)
    return replace(model, decoder=replace(model.decoder, embed=embed, blocks=blocks))


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return gpt2.weight_rules(model)
