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

KEYS = ("vocab_size", "decoder_vocab_size", "n_words", "src_vocab_size", "tgt_vocab_size")


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
    if not isinstance(size, int) or size < 1:
        raise ConfigError(f"A vocabulary has at least 1 token, not {size!r}.")
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
        trains = old.requires_grad
        assign_tensor(model, name, value)
        _tensor(model, name).requires_grad_(trains)
    for name, other in fresh.named_modules():
        own = model.get_submodule(name)
        for attribute in ("spec", "parts", "out_features", "clusters"):
            if hasattr(other, attribute):
                setattr(own, attribute, getattr(other, attribute))
    model.config = config
    tie_weights(model)


def _resized(config: dict[str, Any], size: int) -> dict[str, Any]:
    """Changes every key of the vocabulary's size: Marian has one for each side."""
    sizes = {key: config[key] for key in KEYS if config.get(key) is not None}
    if not sizes or len(set(sizes.values())) > 1:
        there = ", ".join(f"{key} {value}" for key, value in sizes.items()) or "no vocab_size"
        raise UnsupportedError(
            f"Only a model with one vocabulary can be resized, and this one's config has {there}."
        )
    return {**config, **dict.fromkeys(sizes, size)}


def _tensor(model: nn.Module, name: str) -> torch.Tensor:
    owner, _, leaf = name.rpartition(".")
    found: torch.Tensor = getattr(model.get_submodule(owner), leaf)
    return found
