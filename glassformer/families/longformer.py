"""Longformer (Beltagy et al., 2020): RoBERTa with sliding-window attention.

A few global tokens attend to all tokens and all tokens attend to them, with separate projections.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from glassformer import spec
from glassformer.families import bert, roberta
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.weight_rules import JOINED, WeightRule

NAME = "Longformer"
MODEL_TYPES = ("longformer",)
HEADS = (
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForMultipleChoice",
    "ForTokenClassification",
    "ForQuestionAnswering",
)
CLASSES = {"LongformerModel": "", **{f"Longformer{head}": "longformer." for head in HEADS}}
IGNORED = {
    "attention_mode": "of the first release; windows in chunks are computed like any others",
    "attention_dilation": "of the first release; the published implementation has no dilation",
    "autoregressive": "of the first release; the published implementation is an encoder",
    "ignore_attention_mask": "of the first release; padding is never seen",
    "onnx_export": "how the reference runs, not what it computes",
}
UNUSED_TENSORS = roberta.UNUSED_TENSORS
SMALL = {**bert.SMALL, "attention_window": 4}
TINY: tuple[dict[str, Any], ...] = (
    SMALL,
    {
        **SMALL,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "attention_window": [4, 16, 8],
        "hidden_act": "relu",
        "pad_token_id": 4,
        "layer_norm_eps": 1e-5,
        "type_vocab_size": 1,
        "num_labels": 5,
        "tie_word_embeddings": False,
    },
)
BASE = {**roberta.BASE, "max_position_embeddings": 4098}
PRESETS = {
    "longformer-base": ("LongformerForMaskedLM", BASE),
    "longformer-large": ("LongformerForMaskedLM", {**BASE, **bert.LARGE}),
}


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    config.only("is_decoder", False)
    kind = architecture.removeprefix("Longformer")
    model = roberta.spec_from_config(config, f"Roberta{kind}")
    assert model.encoder is not None
    global_tokens: dict[str, Literal["first", "question", "answers"]] = {
        "ForSequenceClassification": "first",
        "ForQuestionAnswering": "question",
        "ForMultipleChoice": "answers",
    }
    return replace(
        model,
        encoder=replace(model.encoder, blocks=blocks(config, model.encoder)),
        tokens=replace(model.tokens, separator=config.id("sep_token_id", 2)),
        global_tokens=global_tokens.get(kind, "none"),
    )


def blocks(config: ConfigReader, stack: spec.StackSpec) -> tuple[spec.BlockSpec, ...]:
    """Returns the blocks; every layer has its own window size, half of it on either side."""
    if isinstance(config.optional("attention_window", 512), int):
        windows = [config.integer("attention_window", 512)] * len(stack.blocks)
    else:
        windows = config.items("attention_window", [], int, "even numbers")
    if len(windows) != len(stack.blocks) or any(size < 2 or size % 2 for size in windows):
        raise config.wrong("attention_window", "an even number, or one for every layer")
    return tuple(
        replace(
            block,
            attention=replace(block.attention, separate_global_projections=True),
            pattern=spec.AttentionPattern(left=size // 2, right=size // 2),
        )
        for block, size in zip(stack.attention_blocks, windows, strict=True)
    )


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    hf = f"{bert.LAYER}.attention.self"
    parts = tuple(f"{hf}.{part}_global" for part in ("query", "key", "value"))
    return (
        WeightRule(parts, f"{bert.OURS}.attention.global_qkv", JOINED),
        *roberta.weight_rules(model),
    )
