"""A CNN encoder (Gehring et al., 2017, in one stack): the convolutional baseline.

Layers of gated convolutions with residual connections, over learned positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

from glassformer import spec
from glassformer.families._shared import baseline, common
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "CNN"
MODEL_TYPES = ("cnn",)
CLASSES = {"CnnModel": "", **{f"Cnn{kind}": "model." for kind in baseline.KINDS}}
IGNORED: Mapping[str, str] = {}
UNUSED_TENSORS: Mapping[str, str] = {}
TINY: tuple[dict[str, Any], ...] = (
    {
        "vocab_size": 60,
        "hidden_size": 16,
        "num_hidden_layers": 3,
        "max_position_embeddings": 160,
        "pad_token_id": 0,
    },
    {
        "vocab_size": 50,
        "hidden_size": 20,
        "num_hidden_layers": 2,
        "kernel_size": 5,
        "dilation_growth": 2,
        "hidden_act": "relu",
        "max_position_embeddings": 150,
        "num_labels": 5,
        "tie_word_embeddings": True,
    },
    {
        "vocab_size": 40,
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "kernel_size": 2,
        "max_position_embeddings": 145,
        "bidirectional": False,
        "pad_token_id": 3,
    },
)
PRESETS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "cnn": ("CnnForSequenceClassification", {"vocab_size": 30_000}),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    """Builds the model; `hidden_act` is glu, or an activation without gates."""
    kind = architecture.removeprefix("Cnn")
    dropout = config.dropout("hidden_dropout_prob", 0.1)
    bidirectional = baseline.is_bidirectional(config, kind)
    gated = config.word("hidden_act", "glu") == "glu"
    growth = config.integer("dilation_growth", 1)
    kernel = config.integer("kernel_size", 3)
    stack = spec.StackSpec(
        width=config.integer("hidden_size", 512),
        embed=spec.TokenEmbeddingSpec(
            vocabulary=config.integer("vocab_size"),
            position=spec.PositionTableSpec(length=config.integer("max_position_embeddings", 1024)),
            dropout=dropout,
        ),
        blocks=tuple(
            spec.ConvolutionalSpec(
                kernel=kernel,
                dilation=growth**depth,
                causal=not bidirectional,
                activation="sigmoid" if gated else common.activation(config, "hidden_act", "relu"),
                gated=gated,
                scale=sqrt(0.5),
                dropout=dropout,
            )
            for depth in range(config.layers("num_hidden_layers", 6))
        ),
    )
    init = spec.InitSpec(kind="xavier", std=config.number("initializer_range", 1.0, least=0))
    return baseline.assemble(config, kind, stack, init)


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return (
        WeightRule("{base}positions", "{stack}.embed.position"),
        WeightRule("{base}convolutions.{i}", "{stack}.blocks.{i}.over_tokens"),
        *baseline.RULES,
    )
