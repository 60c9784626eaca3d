"""The files that a model is loaded from, and a fingerprint of its weights."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path

import torch

from glassformer.errors import LoadError
from glassformer.storage.fingerprints import fingerprints
from glassformer.storage.folders import stable_folder
from glassformer.text.loading.catalog import FAMILIES
from glassformer.text.loading.files import PROCESSOR_FILE, READER_FILE, SIDE_FILES, SIDE_FOLDER
from glassformer.weights.folder_kind import (
    ADAPTER_CONFIG,
    ADAPTER_FILES,
    adapter_tensors,
    holds_adapter,
)
from glassformer.weights.load import read_config
from glassformer.weights.tensor_files import TensorFiles, is_single

TOKENIZER_FILES = sorted(
    {
        *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
        *("added_tokens.json", "target_vocab.json", *SIDE_FILES),
        *chain.from_iterable((*each.files, *chain(*each.or_files)) for each in FAMILIES.values()),
    }
)
MODEL_FILES = (
    *("config.json", "generation_config.json", READER_FILE, PROCESSOR_FILE),
    *("modules.json", "sentence_bert_config.json", "1_Pooling/config.json"),
    *(ADAPTER_CONFIG, *ADAPTER_FILES, "glassformer.json"),
)
WITHOUT_EFFECT = ("_name_or_path", "transformers_version", "torch_dtype", "dtype")
"""Keys of config.json that do not change what a model computes from given weights."""


def tokenizer_files(folder: Path) -> dict[str, Path]:
    """Returns the files of a tokenizer by their names relative to the folder."""
    names = [
        *TOKENIZER_FILES,
        *(f"{SIDE_FOLDER}/{p.name}" for p in folder.glob(f"{SIDE_FOLDER}/*")),
    ]
    return {name: folder / name for name in names if (folder / name).is_file()}


def model_files(folder: Path) -> dict[str, Path]:
    """Returns the files of a model, an adapter or a tokenizer, by names relative to the folder.

    A model in a single file has the tokenizer files beside it.
    """
    place = folder.parent if is_single(folder) else folder
    found = tokenizer_files(place)
    if not is_single(folder):
        found |= {name: place / name for name in MODEL_FILES if (place / name).is_file()}
    with suppress(LoadError):  # without weights, or with incomplete ones
        weights = TensorFiles(folder).paths
        found |= {os.path.relpath(path, place): path for path in weights}
    return found


def weights_fingerprint(folder: Path) -> str | None:
    """Returns a hash of a model's tensors and of its config; None if the folder has no weights.

    Files and formats that hold the same tensors have the same fingerprint. For an adapter, it is
    that of the adapter's files.
    """
    with stable_folder(folder):
        if is_single(folder):
            return fingerprints([folder])[folder]
        if holds_adapter(folder):
            files = [folder / ADAPTER_CONFIG, adapter_tensors(folder)]
            return sha256("".join(fingerprints(files).values()).encode()).hexdigest()
        try:
            tensors = TensorFiles(folder)
        except LoadError:
            return None
        return sha256(b"".join(_digests(tensors, folder))).hexdigest()


def _digests(tensors: TensorFiles, folder: Path) -> Iterator[bytes]:
    config = {k: v for k, v in read_config(folder).items() if k not in WITHOUT_EFFECT}
    yield json.dumps(config, sort_keys=True).encode()
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        yield from pool.map(partial(_digest, tensors), sorted(tensors))


def _digest(tensors: TensorFiles, name: str) -> bytes:
    tensor = tensors.read(name, mapped=True)
    about = f"{name} {tensor.dtype} {list(tensor.shape)}"
    data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
    return sha256(about.encode() + sha256(data.data).digest()).digest()
