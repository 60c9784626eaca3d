"""Where a model comes from: a folder, a file, a preset's name or a description goes in, a `Model`
comes out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch

from glassformer.errors import GlassformerError
from glassformer.families import find_family, find_preset, model_type_of, native, read, translate
from glassformer.families.unread import misspelled
from glassformer.model import Model
from glassformer.spec import ModelSpec
from glassformer.tasks.index import Rows
from glassformer.tasks.search import Index
from glassformer.text import Tokenizer
from glassformer.weights.choose import find_type, named_class, type_by_config
from glassformer.weights.files import SINGLE, TensorFiles, is_single
from glassformer.weights.fresh import first_values
from glassformer.weights.load import Request, load_net, put, read_config, tie
from glassformer.weights.plan import make_net, tied_names
from glassformer.zoo import HOME, PREFIX, folder_of, names, real


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
    lists.

    The model computes what the published class computes, in evaluation mode. `dtype` None keeps
    the file's; a GGUF file and the zoo's models give float32. The class is the one that config.json
    names, or else the one that the tensors fit. Tensors of the file that are known to be without
    effect are left out, and `Model.report` says which and why. Another difference between
    config.json and the tensors is an error, unless it is asked for by name: `architecture` is
    another class of the family than the config names; `make` are tensors, by the beginning of their
    names, that start fresh; `drop` tensors to leave out. With `labels` a new classification head
    gets these classes. `quantize` is "int8" or "int4"; see `Model.quantize`. `adapter` is an
    adapter's folder; see `Model.load_adapter`.

    >>> gf.load(folder, architecture="BertForSequenceClassification", make="classifier",
    ...         drop="cls", labels=["bad", "good"])
    """
    folder = find_folder(source)
    config = read_config(folder)
    if config.get("model_type") is None:
        named = None if architecture is None else model_type_of(architecture)
        config["model_type"] = named or find_type(config, TensorFiles(folder))
    if labels is not None:
        config.pop("num_labels", None)
        config["id2label"] = {str(i): label for i, label in enumerate(labels)}
        config["label2id"] = {label: i for i, label in enumerate(labels)}
    if dtype is None and folder.parent == HOME:  # kept in bfloat16, which is half the bytes
        dtype = torch.float32
    request = Request(
        device=as_device(device),
        dtype=as_dtype(dtype),
        architecture=architecture,
        make=(make,) if isinstance(make, str) else tuple(make),
        drop=(drop,) if isinstance(drop, str) else tuple(drop),
        seed=seed,
    )
    loaded = load_net(folder, config, request)
    model = Model(
        net=loaded.net,
        config=config,
        architecture=loaded.architecture,
        tokenizer=folder,
        reader=folder,
        pooling=folder,
        report=loaded.report,
        generation=read_generation(folder),
    )
    model.source = folder
    if quantize is not None:
        model.quantize(quantize)
    return model if adapter is None else model.load_adapter(adapter)


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
    net = make_net(reading.spec)
    for name, *_ in tied_names(net):
        put(net, name, first_values(net, name, seed))
    tie(net)
    return Model(net=net, config=config, architecture=architecture, tokenizer=tokenizer)


def describe(source: str | Path) -> tuple[Mapping[str, Any], str, ModelSpec]:
    """Config, class and spec of a folder or preset, without its weights."""
    name = str(source)
    if not (Path(source).exists() or is_named(name) or "/" in name):
        config = find_preset(name)
    else:
        config = read_config(find_folder(source))
        if config.get("model_type") is None:
            config["model_type"] = type_by_config(config)
    family = find_family(config)
    architecture = named_class(config) or next(iter(family.CLASSES))
    return config, architecture, translate(config, architecture)


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
    there = Rows.there(Path(folder))
    header = Rows.open(Path(folder)).header if there else {}
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
    if name in names() and not (folder / "config.json").is_file():
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


def as_dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    if dtype is None or isinstance(dtype, torch.dtype):
        return dtype
    known = {
        "float32": torch.float32,
        "float16": torch.float16,
        "bfloat16": torch.bfloat16,
        "float64": torch.float64,
    }
    if dtype not in known:
        raise GlassformerError(f"There is no dtype {dtype!r}; choose of {', '.join(known)}.")
    return known[dtype]


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
