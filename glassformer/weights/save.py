"""Saving of a `Transformer` as a checkpoint folder in the published layout."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from glassformer.core import Transformer
from glassformer.families import Family
from glassformer.storage.files import write_json
from glassformer.storage.names import is_plain
from glassformer.storage.parsing import parse_json
from glassformer.weights.mapping import matched, parts_of, tied_names
from glassformer.weights.quantization import is_quantized

SHARD_BYTES = 5_000_000_000
CONFIG, WEIGHTS = "config.json", "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
WEIGHT_KEYS = (WEIGHTS, INDEX)  # programs look for one of these first
SHARD = re.compile(r".+-\d+-of-\d+\.safetensors")


def save_transformer(
    folder: Path,
    model: Transformer,
    family: Family,
    config: Mapping[str, Any],
    architecture: str,
    shard_bytes: int = SHARD_BYTES,
    dtype: torch.dtype | None = None,
) -> None:
    """Writes config.json and the weights into an existing folder.

    Args:
        folder: The folder to write to.
        model: The model.
        family: The model's family, which defines the published tensor names.
        config: The contents of config.json.
        architecture: The published class name.
        shard_bytes: The maximum size of a weight file; larger models are split into shards.
        dtype: Converts floating-point tensors to this dtype; None keeps theirs.
    """
    shards = split(in_dtype(published(model, family, architecture), dtype), shard_bytes)
    total = sum(tensor.nbytes for shard in shards for tensor in shard.values())
    where: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        name = WEIGHTS
        if len(shards) > 1:
            name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
            where |= dict.fromkeys(shard, name)
        whole = {key: tensor.contiguous() for key, tensor in shard.items()}
        save_file(whole, folder / name, metadata={"format": "pt"})
    if where:
        index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(where.items()))}
        write_json(folder / INDEX, index)
    write_json(folder / CONFIG, config)


def published(model: Transformer, family: Family, architecture: str) -> dict[str, Tensor]:
    """Returns the tensors with their published names and layouts, as views where possible.

    The tensors of a quantized model keep Glassformer's own names.
    """
    state = model.state_dict()
    if is_quantized(model):  # no published layout has quantized tensors
        return {name: state[name] for name, *_ in tied_names(model)}
    rules, base = family.weight_rules(model.spec), family.CLASSES[architecture]
    tensors: dict[str, Tensor] = {}
    for name, *_ in tied_names(model):
        found = matched(rules, name, base)
        written = found.rule.op.write(state[name], parts_of(model, name))
        tensors |= dict(zip(found.hf, written, strict=True))
    return tensors


def in_dtype(tensors: Mapping[str, Tensor], dtype: torch.dtype | None) -> Mapping[str, Tensor]:
    if dtype is None:
        return tensors
    return {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }


def split(tensors: Mapping[str, Tensor], limit: int) -> list[dict[str, Tensor]]:
    """Splits the tensors into shards of at most `limit` bytes; a larger tensor is its own shard."""
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if shards[-1] and size + tensor.nbytes > limit:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    return shards


def old_weights(folder: Path) -> set[str]:
    """Returns the names of the weight files of an earlier save, which a new save replaces."""
    index = folder / INDEX
    try:
        shards = parse_json(index.read_bytes())["weight_map"].values()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        shards = ()
    return {*WEIGHT_KEYS} | {n for n in shards if is_plain(n) and SHARD.fullmatch(n)}


def dtype_of(model: Transformer, stored: torch.dtype | None = None) -> str:
    """Returns the name of `stored`, or of the widest floating-point dtype of the parameters."""
    if stored is not None:
        return str(stored).removeprefix("torch.")
    floating = {p.dtype for p in model.parameters() if p.is_floating_point()}
    return dtype_of(model, max(floating, key=lambda d: torch.finfo(d).bits))
