"""An LSTM encoder, unidirectional or bidirectional: the recurrent baseline.

Tensors have torch's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer import spec
from glassformer.families._shared import baseline
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "LSTM"
MODEL_TYPES = ("lstm",)
CLASSES = {"LstmModel": "", **{f"Lstm{kind}": "model." for kind in baseline.KINDS}}
IGNORED: Mapping[str, str] = {}
UNUSED_TENSORS: Mapping[str, str] = {}
TINY: tuple[dict[str, Any], ...] = (
    {
        "vocab_size": 60,
        "embedding_size": 16,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "pad_token_id": 0,
    },
    {
        "vocab_size": 50,
        "embedding_size": 20,
        "hidden_size": 20,
        "num_hidden_layers": 3,
        "num_labels": 5,
        "tie_word_embeddings": True,
    },
    {
        "vocab_size": 40,
        "embedding_size": 12,
        "hidden_size": 18,
        "num_hidden_layers": 1,
        "bidirectional": False,
        "pad_token_id": 3,
    },
)
PRESETS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("LstmForCausalLM", {"vocab_size": 30_000}),
    "bilstm": ("LstmForSequenceClassification", {"vocab_size": 30_000}),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    kind = architecture.removeprefix("Lstm")
    width, dropout = config.integer("hidden_size", 512), config.dropout("hidden_dropout_prob", 0.1)
    layers = config.layers("num_hidden_layers", 2)
    bidirectional = baseline.is_bidirectional(config, kind)
    stack = spec.StackSpec(
        width=config.integer("embedding_size", width),
        embed=spec.TokenEmbeddingSpec(vocabulary=config.integer("vocab_size")),
        blocks=tuple(
            spec.RecurrentSpec(
                width=width,
                bidirectional=bidirectional,
                dropout_in=dropout if depth == 0 else 0.0,
                dropout=dropout,
            )
            for depth in range(layers)
        ),
    )
    init = spec.InitSpec(kind="uniform", std=config.number("initializer_range", 0.1, least=0))
    return baseline.assemble(config, kind, stack, init)


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    sides = (("ahead", ""), ("back", "_reverse"))
    kinds = (
        ("weight_in", "weight_ih"),
        ("weight_state", "weight_hh"),
        ("bias_in", "bias_ih"),
        ("bias_state", "bias_hh"),
    )
    return (
        *(
            WeightRule(
                f"{{base}}lstm.{hf}_l{{i}}{suffix}", f"{{stack}}.blocks.{{i}}.{side}.{local}"
            )
            for side, suffix in sides
            for local, hf in kinds
        ),
        *baseline.RULES,
    )
