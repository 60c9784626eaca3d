"""Loads models and search indexes from folders, files and names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from glassformer.adapters import active
from glassformer.adapters.base_model import AdapterBase, AdapterDescription, read_description
from glassformer.adapters.guess import guessed
from glassformer.creation import extended
from glassformer.errors import ConfigError, DeviceError, LoadError, UnsupportedError
from glassformer.families import (
    find_family,
    find_preset,
    model_type_of,
    native,
    presets,
    spec_from_config,
)
from glassformer.find_model import (
    absolute,
    describe_adapter,
    find_adapter,
    find_base,
    find_folder,
    is_named,
    lasting_name,
)
from glassformer.model import Model
from glassformer.spec import ModelSpec
from glassformer.storage.folders import stable_folder
from glassformer.storage.parsing import read_json
from glassformer.tasks.index_header import check_settings
from glassformer.tasks.search.index import IndexRows
from glassformer.tasks.search.search import Index
from glassformer.text.speech import generation_of, generation_of_ctranslate2
from glassformer.weights.architecture import find_type, named_class, type_by_config
from glassformer.weights.dtypes import as_dtype
from glassformer.weights.folder_kind import (
    has_checkpoints_alone,
    holds_adapter,
    published,
)
from glassformer.weights.formats.ctranslate2 import is_ctranslate2
from glassformer.weights.hub_cache import find_in_cache
from glassformer.weights.hub_download import may_download
from glassformer.weights.load import (
    LoadOptions,
    load_transformer,
    read_config,
)
from glassformer.weights.tensor_files import (
    TensorFiles,
    folder_beside,
    is_openai,
)
from glassformer.zoo import is_model


@torch.inference_mode(False)  # inference tensors cannot be trained or watched for changes
def load(
    source: str | Path,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | str | None = None,
    *,
    architecture: str | None = None,
    init_missing: str | Sequence[str] = (),
    ignore_unexpected: str | Sequence[str] = (),
    labels: Sequence[str] | None = None,
    seed: int = 0,
    quantize: str | None = None,
    adapter: str | Path | None = None,
    download: bool = False,
) -> Model:
    """Loads a model.

    The model computes the same function as the published class, in evaluation mode. Tensors in the
    file that are known to have no effect are ignored; `Model.load_report` lists them with the
    reason. Any other mismatch between config.json and the tensors is an error, unless
    `architecture`, `init_missing` or `ignore_unexpected` allows it by name. The model class is the
    one that config.json names, or else the one that fits the tensors.

    Args:
        source: A folder in the published layout, a .safetensors file beside its config.json, a
            GGUF file, a llama2.c .bin file, an OpenAI .pt file or a CTranslate2 folder of a
            Whisper model, the folder of a training run (which stands for the model that it
            published), or an adapter's folder (which also loads its base). "zoo:NAME" is a model
            that ships with Glassformer; so is "NAME" if no file or folder has that name.
            "real:NAME" are published weights that `glassformer zoo` lists. "bert-base-uncased",
            "org/name" and "org/name@revision" are models of the Hugging Face hub in its cache on
            this machine; see `download`.
        device: Device of the weights.
        dtype: None keeps the dtype of the file, or the one that the adapter was trained in; GGUF
            files, zoo models and, on a CPU, OpenAI files are loaded as float32.
        architecture: Another class of the model's family than config.json names.
        init_missing: Name prefixes of tensors that the file lacks, to initialize them.
        ignore_unexpected: Name prefixes of tensors in the file to ignore.
        labels: Class labels of a new classification head.
        seed: Seed of newly initialized tensors.
        quantize: "int8" or "int4"; see `Model.quantize`.
        adapter: An adapter's folder, the folder of a run that trained one, or an adapter's name on
            the hub. It determines the class, head and labels of the base, unless these are given.
        download: Whether a model that is named as on the hub is downloaded into the cache, as far
            as it is not there; needs `pip install 'glassformer[hub]'`. GLASSFORMER_DOWNLOAD=1 in
            the environment allows it, too.

    Returns:
        The model.

    >>> gf.load(folder, architecture="BertForSequenceClassification", init_missing="classifier",
    ...         ignore_unexpected="cls", labels=["bad", "good"])
    """
    checkpoints = has_checkpoints_alone(Path(source))
    folder = Path(source) if checkpoints else find_folder(source, download)
    adapter = None if adapter is None else find_adapter(adapter, download)
    description = AdapterDescription(base=None) if adapter is None else describe_adapter(adapter)
    dtype = dtype or description.dtype
    base = AdapterBase(
        source=lasting_name(source, folder),
        folder=os.path.abspath(folder),
        architecture=architecture,
        init_missing=_listed(init_missing),
        ignore_unexpected=_listed(ignore_unexpected),
        labels=None if labels is None else tuple(labels),
    )
    base = description.checked(base, adapter)
    if not (checkpoints or holds_adapter(folder)):
        if description.base is not None:
            base = base.or_else(description.base)
        if adapter is not None and description.config is None:
            base = base.or_else(guessed(base, published(adapter), read_config(folder)))
        model = _load_whole(folder, base, device, dtype, seed)
    elif not base.as_it_is:
        raise UnsupportedError(
            f"{folder} is loaded as it was saved; for another class, head or labels, load it, "
            "merge its adapter and save that as a model."
        )
    elif checkpoints:
        model = _newest_checkpoint(folder, device, dtype)
    else:
        below = find_base(folder, download)
        model = load(
            below, device, dtype, seed=seed, quantize=quantize, adapter=folder, download=download
        )
    if adapter is not None and active(model) is not None:
        model = merged(model)
    if quantize is not None and not holds_adapter(folder):
        model.quantize(quantize)
    if adapter is None:
        return model
    if description.config is not None and description.architecture != model.architecture:
        model = _with_more_heads(model, description)
    if quantize is not None and model.load_report.made:
        raise UnsupportedError(
            f"The adapter {adapter} holds weights that its base lacks; load it without quantize, "
            "merge it (adapters.merge(forget=True)) and quantize then.",
            field="quantize",
        )
    return model.adapters.load(adapter)


def _listed(prefixes: str | Sequence[str]) -> tuple[str, ...]:
    return (prefixes,) if isinstance(prefixes, str) else tuple(prefixes)


def _load_whole(
    folder: Path,
    base: AdapterBase,
    device: str | torch.device,
    dtype: torch.dtype | str | None,
    seed: int,
) -> Model:
    """Loads a model without an adapter."""
    with stable_folder(folder):
        config = read_config(folder)
        if config.get("model_type") is None:
            named = None if base.architecture is None else model_type_of(base.architecture)
            config["model_type"] = named or find_type(config, TensorFiles(folder))
        if base.labels is not None:
            config.pop("num_labels", None)
            config["id2label"] = {str(i): label for i, label in enumerate(base.labels)}
            config["label2id"] = {label: i for i, label in enumerate(base.labels)}
        place = as_device(device)
        if dtype is None and is_model(folder):  # stored in bfloat16, at half the size
            dtype = torch.float32
        whisper = is_openai(folder) or is_ctranslate2(folder)
        if dtype is None and whisper and place.type == "cpu":
            dtype = torch.float32  # stored in float16, ten times slower on a CPU
        request = LoadOptions(
            device=place,
            dtype=as_dtype(dtype),
            architecture=base.architecture,
            init_missing=base.init_missing,
            ignore_unexpected=base.ignore_unexpected,
            seed=seed,
        )
        loaded = load_transformer(folder, config, request)
        side_files = folder_beside(folder)
        generation = read_generation(side_files)
    model = Model(
        loaded.transformer,
        config,
        loaded.architecture,
        tokenizer=side_files,
        processor=side_files,
        pooling=side_files,
        load_report=loaded.report,
        generation_config=generation,
    )
    model.source, model.base = folder, base
    if is_ctranslate2(folder):
        model.generation_config = generation_of_ctranslate2(
            config, read_json(side_files / "config.json")
        )
    if is_openai(folder) and model.tokenizer is not None:
        model.generation_config = generation_of(model.tokenizer, config["max_target_positions"])
    return model


def _newest_checkpoint(
    run: Path, device: str | torch.device, dtype: torch.dtype | str | None
) -> Model:
    """Loads the newest checkpoint of a run that has not published a model yet.

    `glassformer.train` imports this module, so its checkpoint reader is imported by name here.
    """
    model: Model = import_module("glassformer.train.saved_steps").snapshots(run)[-1].load()
    model.to(device=as_device(device), dtype=as_dtype(dtype)).eval()
    model.source = run
    return model


def merged(model: Model) -> Model:
    """Merges the loaded adapter into the weights, to use the model as the base of another adapter.

    The adapter's folder becomes the source of the merged weights.
    """
    assert model.source is not None
    folder = os.path.abspath(model.source)
    model.adapters.merge(forget=True)
    model.base = AdapterBase(source=folder, folder=folder)
    return model


def _with_more_heads(model: Model, description: AdapterDescription) -> Model:
    """Adds the heads that the base had when the adapter was trained."""
    assert description.config is not None and description.architecture is not None
    if description.config.get("model_type") not in native.MODEL_TYPES:
        return model
    return extended(model, spec_from_config(description.config, description.architecture))


def describe(
    source: str | Path, adapter: str | Path | None = None, *, or_preset: bool = True
) -> tuple[Mapping[str, Any], str, ModelSpec]:
    """Returns the config, class name and spec of a model, without loading weights.

    Args:
        source: As in `load`, or the name of a preset.
        adapter: As in `load`.
        or_preset: Whether a name that is no model's on this machine is that of a preset.
    """
    description = None if adapter is None else describe_adapter(find_adapter(adapter)).config
    if description is not None:
        config = dict(description)
    elif or_preset and not _is_model(str(source)):
        config = find_preset(str(source))
    else:
        config = _config_of(find_folder(source))
    if config.get("model_type") is None:
        config["model_type"] = type_by_config(config)
    family = find_family(config)
    architecture = named_class(config) or next(iter(family.CLASSES))
    return config, architecture, spec_from_config(config, architecture)


def _is_model(source: str) -> bool:
    """Whether the source is that of a model on this machine, or can be nothing else."""
    known = Path(source).exists() or is_named(source) or find_in_cache(source) is not None
    return known or "/" in source or (may_download() and source not in presets())


def _config_of(folder: Path) -> dict[str, Any]:
    if not holds_adapter(folder):
        return read_config(folder)
    description = read_description(folder).config
    return _config_of(find_folder(find_base(folder))) if description is None else dict(description)


def open_index(
    folder: str | Path,
    model: Model | str | Path | None = None,
    texts: str | Path | None = None,
    device: str | torch.device = "cpu",
    **settings: Any,
) -> Index:
    """Opens the search index in a folder, or creates one if a model and texts are given.

    Args:
        folder: The folder of the index.
        model: A model or its name. An existing index knows where its model was.
        texts: For a new index, the folder of the texts.
        device: Device of the model, if it is loaded here.
        **settings: For a new index, the arguments of `tasks.search.search.Index.create`.

    Returns:
        The index.

    >>> index = gf.open_index("notes.index", model="minilm", texts="notes")
    >>> index.update()
    >>> index.search("Where is the key?")[0].text
    """
    there = IndexRows.there(Path(folder))
    header = IndexRows.open(Path(folder)).header if there else {}
    if there:
        check_settings(Path(folder), header)
    if not there and (model is None or texts is None):
        raise LoadError(f"{folder} contains no index; to make one, name its model and texts.")
    name = str(header["model"] if model is None else model)
    if model is None and not name:
        raise LoadError(f"{folder} does not contain the name of its model; give the model.")
    if not isinstance(model, Model):
        loaded = load(name, device, header.get("dtype"))
    else:
        loaded, name = model, str(model.source or "")
    if not there:
        assert texts is not None
        return Index.create(folder, loaded, texts, name=absolute(name), **settings)
    if settings:
        raise ConfigError(
            f"{folder} exists already, and {next(iter(settings))!r} is only for a new index."
        )
    return Index.open(folder, loaded)


def as_device(device: str | torch.device) -> torch.device:
    """Returns the device, or raises an error if this machine does not have it."""
    try:
        found = torch.device(device)
        torch.empty(0, device=found)  # a valid device name may name a missing device
    except (RuntimeError, AssertionError) as error:
        why = str(error).splitlines()[0].rstrip(".")
        raise DeviceError(f"There is no device {str(device)!r} here ({why}).") from None
    return found


def read_generation(folder: Path) -> dict[str, Any] | None:
    """Reads generation_config.json, or returns None if there is none."""
    path = folder / "generation_config.json"
    return read_json(path) if path.is_file() else None
