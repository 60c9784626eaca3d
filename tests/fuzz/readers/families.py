"""config.json of every family, beside weights that fit the valid one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import glassformer as gf
from glassformer.families import classes_of, families, spec_from_config
from glassformer.spec import (
    AudioFramesSpec,
    MemoryHopSpec,
    ModelSpec,
    PatchEmbeddingSpec,
    StackSpec,
)
from glassformer.weights.load import LoadOptions, load_transformer, read_config
from glassformer.weights.mapping import build_transformer
from tests.fuzz.readers import _made
from tests.fuzz.registry import Sample, SilentlyWrongError, reader


def read_model(folder: Path) -> None:
    """Loads a model and computes; weights and inputs are finite, so the result must be."""
    config = read_config(folder)
    loaded = load_transformer(folder, config, LoadOptions())
    with torch.no_grad():
        output = loaded.transformer(**inputs_of(loaded.transformer.spec))
    for name, value in vars(output).items():
        values = value.values() if isinstance(value, dict) else [value]
        for one in values:
            if isinstance(one, Tensor) and not bool(one.float().isfinite().all()):
                raise SilentlyWrongError(f"{name} is not finite")


def inputs_of(model: ModelSpec) -> dict[str, Tensor]:
    """Returns a small input for any model."""
    first = model.encoder or model.last_stack
    found: dict[str, Tensor] = {}
    if isinstance(first.embed, AudioFramesSpec):
        frames = 2 * first.embed.position.length
        found["input_features"] = torch.linspace(-1, 1, first.embed.num_mel_bins * frames).view(
            1, first.embed.num_mel_bins, frames
        )
    elif isinstance(first.embed, PatchEmbeddingSpec):
        found["pixel_values"] = torch.zeros(1, first.embed.channels, *first.embed.image_size)
    else:
        found["input_ids"] = ids_of(first, model)
    if model.encoder is not None and model.decoder is not None and not model.shift_right:
        found["decoder_input_ids"] = ids_of(model.decoder, model)
    if any(isinstance(layer, MemoryHopSpec) for layer in model.last_stack.blocks):
        found["memory_tokens"] = (
            torch.arange(12) % max(1, model.last_stack.embed.vocabulary)
        ).view(1, 3, 4)
    if any(head.multiple_choice for head in model.heads):
        found = {name: value.expand(2, *value.shape[1:])[None] for name, value in found.items()}
    return found


def ids_of(stack: StackSpec, model: ModelSpec) -> Tensor:
    ids = torch.arange(4)[None] % max(1, stack.embed.vocabulary)
    if any(head.pooling == "eos" for head in model.heads) and model.tokens.eos is not None:
        ids[0, -1] = model.tokens.eos
    return ids


def cases(model_type: str, family: Any) -> Iterator[Sample]:
    for number, tiny in enumerate(family.TINY):
        names = classes_of(family, model_type)
        architecture = names[(number + len(names) // 2) % len(names)]
        config = {"model_type": model_type, "architectures": [architecture], **tiny}
        model = create(config, architecture)
        files = _made.written(model.save)
        files["config.json"] = json.dumps(config).encode()
        yield Sample(
            {name: files[name] for name in ("config.json", "model.safetensors")}, ("config.json",)
        )


def create(config: dict[str, Any], architecture: str) -> gf.Model:
    from glassformer.weights.initialize import initial_value
    from glassformer.weights.load import assign_tensor, tie_weights
    from glassformer.weights.mapping import tied_names

    transformer = build_transformer(spec_from_config(config, architecture))
    for name, *_ in tied_names(transformer):
        assign_tensor(transformer, name, initial_value(transformer, name, 0))
    tie_weights(transformer)
    return gf.Model(transformer, config, architecture)


for _model_type, _family in families().items():
    if len(_family.TINY):
        reader(f"config.json {_model_type}", read=read_model)(
            lambda kind=_model_type, family=_family: cases(kind, family)
        )
