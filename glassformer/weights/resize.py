"""Changes the number of token embeddings of a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.families import spec_from_config
from glassformer.weights.initialize import initial_value
from glassformer.weights.load import assign_tensor, tie_weights
from glassformer.weights.mapping import build_transformer, tied_names
from glassformer.weights.pretrained import PretrainedTransformer
from glassformer.weights.quantization import is_quantized


@torch.no_grad()
def resize_token_embeddings(model: PretrainedTransformer, size: int, seed: int = 0) -> None:
    """Gives a model another vocabulary size, in place.

    Existing rows of the token table and of the output layer keep their values; new rows are
    initialized as those of a new model.

    Args:
        model: The model.
        size: The new number of tokens.
        seed: Seed of the new rows.
    """
    if size < 1:
        raise ConfigError(f"A vocabulary has at least 1 token, not {size}.")
    if is_quantized(model):
        raise UnsupportedError("The model is quantized; resize it before it is quantized.")
    config = _resized(model.config, size)
    spec = replace(
        spec_from_config(config, model.architecture),
        tied_weights=model.spec.tied_weights,
        labels=model.spec.labels,
    )
    fresh = build_transformer(spec)
    for name, *_ in tied_names(fresh):
        old, wanted = _tensor(model, name), _tensor(fresh, name)
        if old.shape == wanted.shape:
            continue
        if old.shape[1:] != wanted.shape[1:]:
            raise UnsupportedError(f"{model.architecture} cannot be resized ({name}).")
        value = initial_value(fresh, name, seed).to(old)
        rows = min(len(old), len(value))
        value[:rows] = old[:rows]
        assign_tensor(model, name, value)
    for name, other in fresh.named_modules():
        own = model.get_submodule(name)
        for attribute in ("spec", "parts", "out_features"):
            if hasattr(other, attribute):
                setattr(own, attribute, getattr(other, attribute))
    model.config = config
    tie_weights(model)


def _resized(config: dict[str, Any], size: int) -> dict[str, Any]:
    if "vocab_size" not in config:
        raise UnsupportedError("The model's config has no vocab_size, which could be changed.")
    return {**config, "vocab_size": size}


def _tensor(model: nn.Module, name: str) -> torch.Tensor:
    owner, _, leaf = name.rpartition(".")
    found: torch.Tensor = getattr(model.get_submodule(owner), leaf)
    return found
