"""Where a model comes from: a folder, a file, a preset's name or a description goes in, a `Model`
comes out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from glassformer.adapters import active
from glassformer.adapters.base_model import AdapterBase, AdapterDescription, read_description
from glassformer.adapters.guess import guessed
from glassformer.errors import GlassformerError
from glassformer.families import (
    find_family,
    find_preset,
    model_type_of,
    native,
    read,
    spec_from_config,
)
from glassformer.families._shared.unread_keys import misspelled
from glassformer.model import Model
from glassformer.spec import ModelSpec
from glassformer.storage.folders import stable_folder
from glassformer.tasks.search.index import IndexRows
from glassformer.tasks.search.search import Index
from glassformer.text import Tokenizer
from glassformer.text.speech import generation_of
from glassformer.weights.architecture import find_type, named_class, type_by_config
from glassformer.weights.dtypes import as_dtype
from glassformer.weights.folder_kind import (
    ADAPTER_CONFIG,
    has_checkpoints_alone,
    holds_adapter,
    published,
)
from glassformer.weights.initialize import initial_value
from glassformer.weights.load import (
    LoadOptions,
    assign_tensor,
    load_transformer,
    read_config,
    tie_weights,
)
from glassformer.weights.mapping import build_transformer, tied_names
from glassformer.weights.tensor_files import SINGLE, TensorFiles, is_openai, is_single
from glassformer.zoo import HOME, PREFIX, folder_of, names
from glassformer.zoo import published as real


def load(
    source: str | Path,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | str | None = None,
    *,
    architecture: str | None = None,
    make: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    labels: Sequence[str] | None = None,
    seed: int = 0,
    quantize: str | None = None,
    adapter: str | Path | None = None,
) -> Model:
    """Loads a folder in the published layout, a GGUF file, llama2.c's .bin file, OpenAI's .pt file
    of a Whisper model, or a model that ships with Glassformer: "zoo:NAME" always is that; "NAME" is
    where no folder or file has that name. "real:NAME" are published weights that `glassformer zoo`
    lists. The folder of a training run stands for the model that the run has published. An
    adapter's folder knows its base, which is loaded, and the adapter beside it.

    The model computes what the published class computes, in evaluation mode. `dtype` None keeps
    the file's, or that in which an adapter was trained; a GGUF file, the zoo's models and, on a
    CPU, OpenAI's file give float32. The class is the one that config.json names, or else the one
    that the tensors fit. Tensors of the file that are known to be without effect are left out, and
    `Model.report` says which and why. Another difference between config.json and the tensors is an
    error, unless it is asked for by name: `architecture` is another class of the family than the
    config names; `make` are tensors, by the beginning of their names, that start fresh; `drop`
    tensors to leave out. With `labels` a new classification head gets these classes. `quantize` is
    "int8" or "int4"; see `Model.quantize`. `adapter` is an adapter's folder, or that of a run which
    has trained one; of the base it knows the class, the head and the labels, unless they are named.

    >>> gf.load(folder, architecture="BertForSequenceClassification", make="classifier",
    ...         drop="cls", labels=["bad", "good"])
    """
    checkpoints = has_checkpoints_alone(Path(source))
    folder = Path(source) if checkpoints else find_folder(source)
    told = AdapterDescription(base=None) if adapter is None else describe_adapter(adapter)
    dtype = dtype or told.dtype
    base = AdapterBase(
        source=lasting_name(source, folder),
        folder=os.path.abspath(folder),
        architecture=architecture,
        make=(make,) if isinstance(make, str) else tuple(make),
        drop=(drop,) if isinstance(drop, str) else tuple(drop),
        labels=None if labels is None else tuple(labels),
    )
    if not (checkpoints or holds_adapter(folder)):
        if told.base is not None:
            base = base.or_else(told.base)
        if adapter is not None and told.config is None:
            base = base.or_else(guessed(base, published(Path(adapter)), read_config(folder)))
        model = _load_whole(folder, base, device, dtype, seed)
    elif not base.as_it_is:
        raise GlassformerError(
            f"{folder} is loaded as it was saved; for another class, head or labels, load it, "
            "merge its adapter and save that as a model."
        )
    elif checkpoints:
        model = _newest_checkpoint(folder, device, dtype)
    else:
        below = find_base(folder)
        model = load(below, device, dtype, seed=seed, quantize=quantize, adapter=folder)
    if adapter is not None and active(model.net) is not None:
        model = merged(model)
    if quantize is not None and not holds_adapter(folder):
        model.quantize(quantize)
    if adapter is None:
        return model
    if told.config is not None and told.architecture != model.architecture:
        model = _with_more_heads(model, told)
    if quantize is not None and model.report.made:
        raise GlassformerError(
            f"The adapter {adapter} holds weights that its base lacks; load it without quantize, "
            "merge it (merge_adapter(forget=True)) and quantize then."
        )
    return model.load_adapter(adapter)


def _load_whole(
    folder: Path,
    base: AdapterBase,
    device: str | torch.device,
    dtype: torch.dtype | str | None,
    seed: int,
) -> Model:
    """A model without an adapter."""
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
        if dtype is None and folder.parent == HOME:  # kept in bfloat16, which is half the bytes
            dtype = torch.float32
        if dtype is None and is_openai(folder) and place.type == "cpu":
            dtype = torch.float32  # kept in float16, in which a CPU is ten times slower
        request = LoadOptions(
            device=place,
            dtype=as_dtype(dtype),
            architecture=base.architecture,
            make=base.make,
            drop=base.drop,
            seed=seed,
        )
        loaded = load_transformer(folder, config, request)
        generation = read_generation(folder)
    model = Model(
        net=loaded.net,
        config=config,
        architecture=loaded.architecture,
        tokenizer=folder,
        reader=folder,
        pooling=folder,
        report=loaded.report,
        generation=generation,
    )
    model.source, model.base = folder, base
    if is_openai(folder) and model.tokenizer is not None:
        model.generation = generation_of(model.tokenizer, config["max_target_positions"])
    return model


def _newest_checkpoint(
    run: Path, device: str | torch.device, dtype: torch.dtype | str | None
) -> Model:
    """The model of a run that has published none yet. The train room, which reads checkpoints,
    imports this one, and is therefore asked for by its name."""
    model: Model = import_module("glassformer.train.saved_steps").snapshots(run)[-1].load()
    model.net.to(device=as_device(device), dtype=as_dtype(dtype)).eval()
    model.source = run
    return model


def merged(model: Model) -> Model:
    """A model that was loaded with an adapter, as the base of another: the adapter becomes part of
    its weights, and its folder is where they come from."""
    assert model.source is not None
    folder = os.path.abspath(model.source)
    model.merge_adapter(forget=True)
    model.base = AdapterBase(source=folder, folder=folder)
    return model


def extended(model: Model, described: ModelSpec, seed: int = 0) -> Model:
    """The same weights in a model that has more heads, which start fresh. No published class has
    such heads, so the model is saved with its description in the place of a family's config."""
    made = create(described, seed, tokenizer=model.tokenizer)
    weights = model.net.state_dict()
    made.net.load_state_dict(weights, strict=False)
    more = [name for name, *_ in tied_names(made.net) if name not in weights]
    made.report.made = [*model.report.made, *more]
    made.source, made.base = model.source, model.base
    return made


def _with_more_heads(model: Model, told: AdapterDescription) -> Model:
    """The model that an adapter was trained beside, where heads had been added to its base."""
    assert told.config is not None and told.architecture is not None
    if told.config.get("model_type") not in native.MODEL_TYPES:
        return model
    return extended(model, spec_from_config(told.config, told.architecture))


def describe_adapter(adapter: str | Path) -> AdapterDescription:
    """What an adapter's folder, or that of a run with one, says of its model."""
    folder = published(Path(adapter))
    if not (folder / ADAPTER_CONFIG).is_file():
        raise GlassformerError(
            f"{folder} has no {ADAPTER_CONFIG}, so it is not an adapter's folder; a full model is "
            "loaded by itself."
        )
    return read_description(folder)


def find_base(adapter: Path) -> str:
    """Where the base of an adapter's folder is on this machine."""
    told = read_description(adapter)
    for place in told.places:
        if is_named(place) or Path(place).exists():
            return place
    why = "does not say for which model it is"
    if told.base is not None:
        why = f"is for the model {told.base.source}, which is not there"
    raise GlassformerError(
        f"The adapter {adapter} {why}; name the model, and the adapter with it: "
        f"gf.load(MODEL, adapter={str(adapter)!r}), or MODEL --adapter {adapter}."
    )


def lasting_name(source: str | Path, folder: Path) -> str:
    """A source as it holds on other days and machines."""
    if folder.parent == HOME:
        return f"{PREFIX}{folder.name}"
    return str(source) if is_named(str(source)) else os.path.abspath(folder)


def create(
    what: ModelSpec | str,
    seed: int = 0,
    *,
    tokenizer: Tokenizer | None = None,
    **settings: Any,
) -> Model:
    """A fresh model: of a preset's name, with settings as its config.json would have them, or of
    a spec of your own. The same seed gives the same weights.

    >>> gf.create("gpt2", seed=1, n_layer=4, vocab_size=1000)
    """
    if isinstance(what, ModelSpec):
        if settings:
            raise GlassformerError("Settings go with a preset's name; change the spec itself.")
        config = native.config_of(what)
    else:
        config = {**find_preset(what), **settings}
    architecture = named_class(config)
    assert architecture is not None
    reading = read(config, architecture)
    if reading.unread:
        near = misspelled(reading.unread, reading.used)
        said = (f"{k} (did you mean {near[k]!r}?)" if k in near else k for k in reading.unread)
        raise GlassformerError(f"{find_family(config).NAME} has no setting {', '.join(said)}.")
    net = build_transformer(reading.spec)
    for name, *_ in tied_names(net):
        assign_tensor(net, name, initial_value(net, name, seed))
    tie_weights(net)
    return Model(net=net, config=config, architecture=architecture, tokenizer=tokenizer)


def describe(
    source: str | Path, adapter: str | Path | None = None
) -> tuple[Mapping[str, Any], str, ModelSpec]:
    """Config, class and spec of a folder or preset, without its weights."""
    name = str(source)
    told = None if adapter is None else describe_adapter(adapter).config
    if told is not None:
        config = dict(told)
    elif not (Path(source).exists() or is_named(name) or "/" in name):
        config = find_preset(name)
    else:
        config = _config_of(find_folder(source))
    if config.get("model_type") is None:
        config["model_type"] = type_by_config(config)
    family = find_family(config)
    architecture = named_class(config) or next(iter(family.CLASSES))
    return config, architecture, spec_from_config(config, architecture)


def _config_of(folder: Path) -> dict[str, Any]:
    if not holds_adapter(folder):
        return read_config(folder)
    told = read_description(folder).config
    return _config_of(find_folder(find_base(folder))) if told is None else dict(told)


def open_index(
    folder: str | Path,
    model: Model | str | Path | None = None,
    texts: str | Path | None = None,
    device: str | torch.device = "cpu",
    **settings: Any,
) -> Index:
    """An index to search: the one in the folder, or with a model and a folder of texts a new one,
    for which `settings` are those of `tasks.search.Index.create`. It knows where its model was.

    >>> index = gf.open_index("notes.index", model="minilm", texts="notes")
    >>> index.update()
    >>> index.search("Where is the key?")[0].text
    """
    there = IndexRows.there(Path(folder))
    header = IndexRows.open(Path(folder)).header if there else {}
    if not there and (model is None or texts is None):
        raise GlassformerError(f"{folder} holds no index; for a new one, name its model and texts.")
    name = str(header["model"] if model is None else model)
    if model is None and not name:
        raise GlassformerError(f"{folder} does not know where its model is; name it.")
    if not isinstance(model, Model):
        loaded = load(name, device, header.get("dtype"))
    else:
        loaded, name = model, str(model.source or "")
    if not there:
        assert texts is not None
        return Index.create(folder, loaded, texts, name=absolute(name), **settings)
    if settings:
        raise GlassformerError(f"{folder} is there; {next(iter(settings))!r} is for a new index.")
    return Index.open(folder, loaded)


def absolute(source: str) -> str:
    """A model's name as it holds wherever one stands: built-in ones have no path."""
    return str(Path(source).resolve()) if Path(source).exists() else source


def find_folder(source: str | Path) -> Path:
    """What is on disk goes before the zoo, unless zoo: says otherwise."""
    folder, name = Path(source), str(source)
    if name.startswith(real.PREFIX):
        return real.find(name)
    if is_named(name) and (name.startswith(PREFIX) or not folder.exists()):
        return folder_of(name)
    if is_single(folder):
        return folder
    if not folder.is_dir():
        kind = "file" if folder.suffix in SINGLE else "folder"
        known = dict.fromkeys(names(), PREFIX) | dict.fromkeys(real.REAL, real.PREFIX)
        near = get_close_matches(name, known, 1)
        said = [f"did you mean {known[one]}{one}?" for one in near]
        hint = said[0] if said else f"the zoo has: {', '.join(names())}."
        raise GlassformerError(f"There is no {kind} {folder}; {hint}")
    folder = published(folder)
    if name in names() and not any(
        (folder / file).is_file() for file in ("config.json", ADAPTER_CONFIG)
    ):
        raise GlassformerError(
            f"The folder {folder} has no config.json; the zoo's model is {PREFIX}{name}."
        )
    return folder


def is_named(name: str) -> bool:
    """Whether it is a model of the zoo, or published weights, by its name."""
    return name.startswith((PREFIX, real.PREFIX)) or name in names()


def as_device(device: str | torch.device) -> torch.device:
    try:
        found = torch.device(device)
        torch.empty(0, device=found)  # a name may be right and the device not there
    except (RuntimeError, AssertionError) as error:
        why = str(error).splitlines()[0].rstrip(".")
        raise GlassformerError(f"There is no device {str(device)!r} here ({why}).") from None
    return found


def read_generation(folder: Path) -> dict[str, Any] | None:
    path = folder / "generation_config.json"
    if not path.is_file():
        return None
    try:
        value: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise GlassformerError(f"{path} is not JSON ({error}); get it again.") from None
    if not isinstance(value, dict):
        raise GlassformerError(f"{path} must hold a JSON object; get it again.")
    return value
