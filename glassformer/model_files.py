"""Saves a model in the layout that `load` and the reference implementation read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from glassformer import adapters
from glassformer.errors import LoadError, UnsupportedError
from glassformer.families import find_family
from glassformer.storage.files import write_json
from glassformer.storage.folders import atomic_folder, complete_pending_save
from glassformer.storage.parsing import read_json
from glassformer.tasks.embed import states_width
from glassformer.tasks.pooling import write_pooling
from glassformer.text.loading.files import copy_reader
from glassformer.text.loading.kept_files import check_kept_files, other_settings
from glassformer.weights.dtypes import as_dtype
from glassformer.weights.save import (
    CONFIG,
    WEIGHT_KEYS,
    dtype_of,
    old_weights,
    save_transformer,
)

if TYPE_CHECKING:
    from glassformer.model import Model


def save_model(
    model: Model, folder: Path, dtype: torch.dtype | str | None, shard_bytes: int
) -> None:
    """Saves a model; see `Model.save_pretrained`."""
    adapter = adapters.active(model)
    if adapter is not None and not set(model.load_report.made).isdisjoint(adapter.own):
        raise UnsupportedError(
            f"The adapter {adapter.name!r} holds weights that the model lacks; write them with "
            "adapters.save, or adapters.merge(forget=True) before the model is saved."
        )
    stored = as_dtype(dtype)
    if stored is not None and "quantization" in model.config:
        raise UnsupportedError(
            "Quantized weights are saved as they are; leave `dtype` out.", field="dtype"
        )
    config = {
        **model.config,
        "architectures": [model.architecture],
        "dtype": dtype_of(model, stored),
    }
    config.pop("torch_dtype", None)
    _check_config(folder)
    with atomic_folder(folder, keys=WEIGHT_KEYS, obsolete=old_weights) as draft:
        family = find_family(config)
        with adapters.switched_off(model):
            save_transformer(draft, model, family, config, model.architecture, shard_bytes, stored)
        if model.tokenizer is not None:
            model.tokenizer.save(draft)
            check_kept_files(folder, draft)
        if model.processor_source is not None:
            copy_reader(model.processor_source, draft)
        elif model.processor is not None:
            model.processor.save(draft)
        if model.pooling is not None:
            write_pooling(model.pooling, draft, states_width(model))
        if model.generation_config is not None:
            write_json(draft / "generation_config.json", model.generation_config)
        for name in ("generation_config.json", "modules.json"):
            if (folder / name).is_file() and not (draft / name).is_file():
                raise other_settings(folder / name)


def _check_config(folder: Path) -> None:
    """Raises an error if config.json is that of another program."""
    complete_pending_save(folder)
    path = folder / CONFIG
    weights = [*folder.glob("*.safetensors"), *folder.glob("*.bin")]
    if weights or not path.is_file():
        return
    try:
        ours = not {"model_type", "architectures"}.isdisjoint(read_json(path))
    except LoadError:
        ours = False
    if not ours:
        raise LoadError(
            f"{path} does not belong to a model and is not replaced; save into another folder."
        )
