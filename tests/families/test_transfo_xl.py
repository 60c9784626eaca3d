"""Transformer-XL beside the numbers of its last release (tools/transfo_xl_fixtures.py): the model
itself, and the plain reference that the harness takes for it."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
import reference
import torch
from cases import TOLERANCE
from safetensors.torch import load_file

import glassformer as gf
from glassformer.core import Cache

FOLDERS = sorted((Path(__file__).parent / "transfo_xl").iterdir())
EDGES = (0, 5, 6, 14, 16)

pytestmark = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def largest(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    assert ours.shape == theirs.shape
    return float((ours - theirs).abs().max())


@torch.no_grad()
def test_whole_and_in_segments_as_the_last_release(folder):
    expected, model = load_file(folder / "expected.safetensors"), gf.load(folder)
    tokens = expected["tokens"]
    passes = {"": model(tokens)}
    memory = model.new_cache()
    for i, (start, stop) in enumerate(pairwise(EDGES)):
        passes[f".{i}"] = model(tokens[:, start:stop], past_key_values=memory)
        assert memory.length == model.spec.decoder.memory.length
    for at, out in passes.items():
        assert largest(out.last_hidden_state, expected[f"hidden{at}"]) <= TOLERANCE
        if out.logits is not None:
            assert largest(out.logits, expected[f"logits{at}"]) <= TOLERANCE


@torch.no_grad()
def test_the_plain_reference_is_the_last_release(folder):
    expected = load_file(folder / "expected.safetensors")
    config = json.loads((folder / "config.json").read_text())
    model = reference.find_class(config["architectures"][0])(config).eval()
    model.tie_weights()
    weights = folder / "model.safetensors"
    found = load_file(weights) if weights.exists() else torch.load(folder / "pytorch_model.bin")
    result = model.load_state_dict(found, strict=False)
    assert not set(result.missing_keys) - set(model.tied)
    assert all(name.endswith("inv_freq") for name in result.unexpected_keys)
    tokens, mems = expected["tokens"], None
    passes = {"": model(tokens)}
    for i, (start, stop) in enumerate(pairwise(EDGES)):
        passes[f".{i}"] = model(tokens[:, start:stop], mems=mems)
        mems = passes[f".{i}"]["mems"]
    for at, out in passes.items():
        for name, key in (("last_hidden_state", "hidden"), ("logits", "logits")):
            if name in out:
                assert largest(out[name], expected[f"{key}{at}"]) <= TOLERANCE


@torch.no_grad()
def test_rows_that_join_see_their_own_blanks(folder):
    """Texts of different lengths are read apart and then go on together, as when serving."""
    model = gf.load(folder)
    tokens = load_file(folder / "expected.safetensors")["tokens"]
    texts, new = (tokens[:1, :9], tokens[1:, :4]), torch.tensor([[5, 6], [7, 8]])
    caches = []
    for text in texts:
        caches.append(Cache())
        model(text, past_key_values=caches[-1])
    caches[0].join(caches[1])
    steps = [
        model(new[:, i : i + 1], past_key_values=caches[0]).last_hidden_state for i in range(2)
    ]
    for row, text in enumerate(texts):
        whole = model(torch.cat((text, new[row : row + 1]), -1)).last_hidden_state[:, -2:]
        assert largest(torch.cat(steps, 1)[row : row + 1], whole) <= TOLERANCE
