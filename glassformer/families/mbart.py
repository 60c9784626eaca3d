"""mBART (Liu et al., 2020): BART for many languages, with pre-norm.

A text ends with its language token, and the decoder starts with it.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer import spec
from glassformer.families import bart
from glassformer.families._shared import common, fairseq_like
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "mBART"
MODEL_TYPES = ("mbart",)
CLASSES = {name.replace("Bart", "MBart"): base for name, base in bart.CLASSES.items()}
IGNORED = fairseq_like.IGNORED
UNUSED_TENSORS = bart.UNUSED_TENSORS
TINY = (
    {**fairseq_like.SMALL, "vocab_size": 99},
    {
        **fairseq_like.UNEVEN,
        "vocab_size": 61,
        "scale_embedding": True,
        "activation_function": "relu",
        "tie_word_embeddings": False,
        "num_labels": 5,
    },
)
PRESETS = {
    "mbart-large-cc25": (
        "MBartForConditionalGeneration",
        {"vocab_size": 250027, "scale_embedding": True},
    ),
    "mbart-large-50": (
        "MBartForConditionalGeneration",
        {"vocab_size": 250054, "scale_embedding": True, "activation_function": "relu"},
    ),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    tokens = common.special_tokens(config, pad=1, bos=0, eos=2)
    kind = architecture.removeprefix("MBart")
    model = bart.assemble(config, kind, tokens, common.labels(config), pre=True)
    return replace(model, decoder_start="last_token") if model.shift_right else model


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return bart.weight_rules(model)
