"""The context length of every family, against the reference's config and its embedding tables."""

from __future__ import annotations

import pytest
import reference
import torch
import transformers
from cases import NAMES, in_transformers

from glassformer.families import spec_from_config
from glassformer.spec import AudioFramesSpec, TokenEmbeddingSpec

UNLIMITED = {  # and why
    "t5": "relative positions",
    "mt5": "relative positions",
    "xlnet": "relative positions",
    "transfo-xl": "relative positions",
    "lstm": "recurrent layers",
    "awd-lstm": "recurrent layers",
    "memory-network": "a memory of sentences, whose number is no length of a text",
    "vit": "patches of an image",
}
FIRST = {(name.model_type, name.index): name for name in reversed(NAMES)}
KEYS = ("max_position_embeddings", "n_positions")


def expected(name, stack) -> int | None:
    """By the reference's config, with its defaults and its names for one thing."""
    if name.model_type in UNLIMITED:
        return None
    config = name.config
    if in_transformers(name):
        config = transformers.AutoConfig.for_model(**config).to_dict()
    if name.model_type == "whisper":
        side = "source" if isinstance(stack.embed, AudioFramesSpec) else "target"
        return config[f"max_{side}_positions"]
    if name.model_type.startswith("deberta") and not config["position_biased_input"]:
        return None  # relative positions alone
    rows = next(config[key] for key in KEYS if key in config)
    if name.model_type in ("roberta", "xlm-roberta", "longformer"):  # rows for padding
        return rows - config["pad_token_id"] - 1
    rope = config.get("rope_parameters") or {}
    if rope.get("rope_type") in ("linear", "yarn"):
        trained = rope.get("original_max_position_embeddings") or rows
        return max(rows, int(trained * rope["factor"]))
    return rows


@pytest.mark.parametrize("name", FIRST.values(), ids=str)
def test_the_context_length_is_the_references(name):
    stacks = [stack for stack in (name.spec.encoder, name.spec.decoder) if stack is not None]
    for stack in stacks:
        assert stack.context_length == expected(name, stack)


def has_learned_table(name) -> bool:
    embed = name.spec.last_stack.embed
    table = embed.position if isinstance(embed, TokenEmbeddingSpec) else None
    return table is not None and table.layout == "learned" and in_transformers(name)


@pytest.mark.parametrize("name", [n for n in FIRST.values() if has_learned_table(n)], ids=str)
def test_a_learned_table_ends_where_the_references_does(name):
    theirs = reference.make(name.config, name.architecture, seed=0)
    length = name.spec.last_stack.context_length
    words = "decoder_input_ids" if name.spec.encoder and name.spec.decoder else "input_ids"

    def read(tokens: int) -> None:
        inputs = {words: torch.full((1, tokens), 7)}
        if name.model_type == "whisper":
            frames = name.spec.encoder.embed
            inputs["input_features"] = torch.zeros(
                1, frames.num_mel_bins, 2 * frames.position.length
            )
        elif words != "input_ids":
            inputs["input_ids"] = torch.full((1, 4), 7)
        reference.run(theirs, inputs)

    read(length)
    with pytest.raises((IndexError, RuntimeError, ValueError)):
        read(length + 1)


LLAMA = {
    "model_type": "llama",
    "hidden_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 16,
    "vocab_size": 20,
    "max_position_embeddings": 64,
}


@pytest.mark.parametrize(
    ("scaling", "length"),
    [
        (None, 64),
        ({"type": "linear", "factor": 4.0}, 256),  # the reference leaves the key at 64
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}, 256),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}, 64),
        (
            {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
             "original_max_position_embeddings": 16},
            64,
        ),
    ],
)  # fmt: skip
def test_rope_scaling_extends_the_context(scaling, length):
    spec = spec_from_config({**LLAMA, "rope_scaling": scaling}, "LlamaForCausalLM")
    assert spec.decoder.context_length == length


def test_a_window_of_attention_is_no_limit():
    config = {**LLAMA, "model_type": "mistral", "num_key_value_heads": 2, "sliding_window": 8}
    assert spec_from_config(config, "MistralForCausalLM").decoder.context_length == 64
