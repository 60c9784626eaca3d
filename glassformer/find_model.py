"""Finds the folder or file of a model by its source: a path, a zoo name or a name on the hub."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from pathlib import Path

from glassformer.adapters.base_model import AdapterDescription, read_description
from glassformer.errors import LoadError
from glassformer.weights.folder_kind import ADAPTER_CONFIG, ADAPTER_FILES, holds_adapter, published
from glassformer.weights.formats.ctranslate2 import is_ctranslate2
from glassformer.weights.hub_cache import (
    find_in_cache,
    is_hub_name,
    is_repository,
    name_of,
    snapshot_of,
)
from glassformer.weights.hub_download import fetch_from_hub, may_download
from glassformer.weights.tensor_files import SINGLE, is_single, is_weights
from glassformer.weights.weight_files import SHARD
from glassformer.zoo import IN_DISTRIBUTION, PREFIX, folder_of, is_model, names
from glassformer.zoo import published as real


def absolute(source: str) -> str:
    """Returns an absolute path for a source on disk; names of built-in models stay as they are."""
    return str(Path(source).resolve()) if Path(source).exists() else source


def find_folder(source: str | Path, download: bool = False) -> Path:
    """Returns the path of a source.

    Files on disk take precedence over zoo names without "zoo:", and those over the hub.
    """
    folder, name = Path(source), str(source)
    if name.startswith(real.PREFIX):
        return real.find(name)
    if is_named(name) and (name.startswith(PREFIX) or not folder.exists()):
        return folder_of(name)
    if is_single(folder) or is_weights(folder):
        return _of_weights(folder)
    if not folder.exists() and (found := _on_hub(name, download)) is not None:
        return found
    if is_repository(folder):
        return snapshot_of(folder)
    if folder.is_file():
        kinds = ", ".join((*SINGLE, ".safetensors"))
        raise LoadError(f"{folder} is not a file of a model ({kinds}); name a model's folder.")
    if not folder.is_dir():
        kind = "file" if folder.suffix in (*SINGLE, ".safetensors") else "folder"
        known = dict.fromkeys((*names(), *IN_DISTRIBUTION), PREFIX) | dict.fromkeys(
            real.REAL, real.PREFIX
        )
        near = get_close_matches(name, known, 1)
        said = [f"did you mean {known[one]}{one}?" for one in near]
        hint = said[0] if said else f"the zoo has: {', '.join(names())}."
        if not said and kind == "folder" and is_hub_name(name):
            hint += " If it is a model on the hub, --download (download=True) gets it."
        raise LoadError(f"There is no {kind} {folder}; {hint}")
    if is_ctranslate2(folder / "model.bin"):
        return folder / "model.bin"
    folder = published(folder)
    if name in names() and not any(
        (folder / file).is_file() for file in ("config.json", ADAPTER_CONFIG)
    ):
        raise LoadError(
            f"The folder {folder} has no config.json; the zoo's model is {PREFIX}{name}."
        )
    return folder


def _of_weights(file: Path) -> Path:
    """Returns the file itself, or its folder if it is an adapter's file or a part of a model."""
    part = SHARD.fullmatch(file.name) or re.match(r"consolidated\.\d", file.name)
    return file.parent if part or file.name in ADAPTER_FILES else file


def _on_hub(name: str, download: bool) -> Path | None:
    """Returns the model's folder in the hub's cache, after its download if that is asked for."""
    if is_hub_name(name) and may_download(download):
        return fetch_from_hub(name)
    return find_in_cache(name)


def is_named(name: str) -> bool:
    """Whether the name is one of a zoo model or of published weights."""
    return name.startswith((PREFIX, real.PREFIX)) or name in (*names(), *IN_DISTRIBUTION)


def find_adapter(adapter: str | Path, download: bool = False) -> Path:
    """Returns the folder of an adapter, or of a run that trained one; it may be on the hub."""
    folder = Path(adapter)
    if folder.exists():
        return folder
    found = _on_hub(str(adapter), download)
    if found is None:
        raise LoadError(
            f"There is no folder {adapter}; name the folder of an adapter, or of a run that "
            "trained one."
        )
    return found


def describe_adapter(adapter: Path) -> AdapterDescription:
    """Reads what the folder of an adapter, or of a run that trained one, says about its model."""
    folder = published(adapter)
    if not (folder / ADAPTER_CONFIG).is_file():
        raise LoadError(
            f"{folder} has no {ADAPTER_CONFIG}, so it is not an adapter's folder; a full model is "
            "loaded by itself."
        )
    return read_description(folder)


def find_base(adapter: Path, download: bool = False) -> str:
    """Returns where the base model of an adapter's folder is found on this machine.

    With `download`, it is also found on the hub.
    """
    found = read_description(adapter)
    for place in found.places:
        if _leads_back(place, adapter):
            raise LoadError(
                f"The adapter {adapter} names itself as its base model, through {place}."
            )
        if is_named(place) or Path(place).exists() or find_in_cache(place) is not None:
            return place
    if found.base is not None and is_hub_name(found.base.source) and may_download(download):
        return found.base.source
    why = "does not say for which model it is"
    if found.base is not None:
        why = f"is for the model {found.base.source}, which is not there"
    raise LoadError(
        f"The adapter {adapter} {why}; name the model, and the adapter with it: "
        f"gf.load(MODEL, adapter={str(adapter)!r}), or MODEL --adapter {adapter}."
    )


def _leads_back(place: str, adapter: Path) -> bool:
    """Whether a base is the adapter itself, or an adapter whose base is, and so on."""
    folders, seen = [Path(place)], set[Path]()
    while folders:
        folder = folders.pop()
        if folder.is_dir() and holds_adapter(folder) and (own := folder.resolve()) not in seen:
            seen.add(own)
            folders += map(Path, read_description(folder).places)
    return adapter.resolve() in seen


def lasting_name(source: str | Path, folder: Path) -> str:
    """Returns a name of the source that does not depend on the working directory.

    A model that is named as on the hub keeps its name, with the commit.
    """
    if is_model(folder):
        return f"{PREFIX}{folder.name}"
    if is_named(str(source)):
        return str(source)
    on_hub = None if Path(source).exists() else name_of(folder)
    return on_hub or os.path.abspath(folder)
