"""A tiny GPT-2 for the benchmarks, the same on every machine: its numbers come from a formula.
tools/lm_reference.py lets the harness judge the same model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

import glassformer as gf

HARNESS = Path(__file__).parent / "harness"
RECORDS = HARNESS / "records.json"  # in the published formats, by the benchmark's name
EXPECTED = HARNESS / "expected.json"  # what the harness made of them
POSITIONS = 256  # some records are longer, with examples many


def model() -> gf.Model:
    tokenizer = gf.Tokenizer.load(HARNESS / "tokenizer")
    made = gf.create(
        "gpt2",
        tokenizer=tokenizer,
        vocab_size=tokenizer.size,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=POSITIONS,
        bos_token_id=0,
        eos_token_id=0,
    )
    with torch.no_grad():
        for number, (name, tensor) in enumerate(sorted(made.named_parameters())):
            if "norm" not in name:
                places = np.arange(tensor.numel(), dtype=np.float64) * 12.9898 + 78.233 * number
                noise = np.modf(np.sin(places) * 43758.5453)[0] * 0.4  # as shaders make it
                tensor.copy_(torch.from_numpy(noise).float().view_as(tensor))
    return made


def records() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(RECORDS.read_text("utf-8"))
    return found
