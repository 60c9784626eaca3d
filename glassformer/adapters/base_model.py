"""The base model of an adapter, and how to load it again.

peft's files identify the base model only by a path. `glassformer.json` is stored next to them and
records what else is needed: the class, the tensors that were initialized or dropped, the labels,
and the config of the adapted model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from glassformer.errors import LoadError
from glassformer.storage.files import write_json
from glassformer.storage.parsing import read_json
from glassformer.weights.folder_kind import ADAPTER_CONFIG
from glassformer.weights.hub_cache import is_hub_name
from glassformer.weights.model_files import weights_fingerprint
from glassformer.weights.pretrained import PretrainedTransformer
from glassformer.weights.save import dtype_of

DESCRIPTION = "glassformer.json"


@dataclass(frozen=True, kw_only=True)
class AdapterBase:
    """The base model of an adapter and the options to load it with.

    Attributes:
        source: A path, zoo:NAME or real:NAME.
        folder: The local folder of `source`.
        architecture: As in `LoadOptions`, like `init_missing` and `ignore_unexpected`.
        labels: The labels of the classification head.
        fingerprint: The `weights_fingerprint` of the model that the adapter was trained on.
    """

    source: str
    folder: str | None = None
    architecture: str | None = None
    init_missing: tuple[str, ...] = ()
    ignore_unexpected: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None
    fingerprint: str | None = None

    @property
    def current_fingerprint(self) -> str | None:
        """The fingerprint of what the folder holds now."""
        return None if self.folder is None else weights_fingerprint(Path(self.folder))

    def in_peft(self) -> dict[str, str | None]:
        """Returns what adapter_config.json says about the base: its folder, or its hub name."""
        name, _, revision = self.source.partition("@")
        if revision and is_hub_name(self.source):
            return {"base_model_name_or_path": name, "revision": revision}
        return {"base_model_name_or_path": self.folder, "revision": None}

    def or_else(self, other: AdapterBase) -> AdapterBase:
        """Fills unset options with those of another description of the same model."""
        return replace(
            self,
            architecture=self.architecture or other.architecture,
            init_missing=self.init_missing or other.init_missing,
            ignore_unexpected=self.ignore_unexpected or other.ignore_unexpected,
            labels=self.labels or other.labels,
        )

    @property
    def as_it_is(self) -> bool:
        """Whether the model is loaded exactly as its config.json describes it."""
        return not (self.architecture or self.init_missing or self.ignore_unexpected or self.labels)


@dataclass(frozen=True, kw_only=True)
class AdapterDescription:
    """The description of the adapted model in an adapter folder.

    Attributes:
        base: The base model, if it is known.
        places: Paths where the base model may be found, in order of preference.
        architecture: The class of the adapted model.
        config: The config of the adapted model.
        dtype: The dtype of the model during training.
    """

    base: AdapterBase | None
    places: tuple[str, ...] = ()
    architecture: str | None = None
    config: Mapping[str, Any] | None = None
    dtype: str | None = None

    def checked(self, base: AdapterBase, adapter: str | Path | None) -> AdapterBase:
        """Returns the base that is to be loaded, with the fingerprint stored in the adapter folder.

        Raises an error if it has the source that the adapter was trained on, and its weights have
        changed since. Another source is the caller's choice.
        """
        known = None if self.base is None else self.base.fingerprint
        if known is None or not {base.source, base.folder} & {*self.places}:
            return base
        if base.current_fingerprint != known:
            raise LoadError(
                f"The weights or the config of {base.source} have changed since the adapter "
                f"{adapter} was trained on them; put them back as they were, train the adapter "
                "again, or name a copy of the earlier model: "
                f"gf.load(MODEL, adapter={str(adapter)!r})."
            )
        return replace(base, fingerprint=known)


def write_description(
    draft: Path, folder: Path, base: AdapterBase | None, model: PretrainedTransformer
) -> None:
    """Writes `glassformer.json`.

    Args:
        draft: The folder to write to, which is later renamed to `folder`.
        folder: The final folder. The path of the base model is also stored relative to it, so that
            both can be moved together.
        base: The base model, if it is known.
        model: The adapted model.
    """
    description: dict[str, Any] | None = None
    if base is not None:
        description = {key: value for key, value in asdict(base).items() if key != "folder"}
        local = base.folder if is_hub_name(base.source) else base.source
        if local is not None and Path(local).is_absolute():
            description["relative"] = os.path.relpath(local, os.path.abspath(folder))
    config = {key: value for key, value in model.config.items() if key != "quantization"}
    described = {
        "base": description,
        "architecture": model.architecture,
        "dtype": dtype_of(model),
        "config": {**config, "architectures": [model.architecture]},
    }
    write_json(draft / DESCRIPTION, described)


def read_description(folder: Path) -> AdapterDescription:
    """Reads the description of an adapter folder.

    For a folder written by peft, only the name of the base model is known.
    """
    path = folder / DESCRIPTION
    if not path.is_file():
        config = read_json(folder / ADAPTER_CONFIG)
        source, revision = config.get("base_model_name_or_path"), config.get("revision")
        if not source:
            return AdapterDescription(base=None)
        if not isinstance(source, str):
            raise LoadError(
                f"{folder / ADAPTER_CONFIG} has base_model_name_or_path = {source!r}; it is a text."
            )
        if revision and is_hub_name(source) and not Path(source).exists():
            source = f"{source}@{revision}"
        return AdapterDescription(
            base=AdapterBase(source=source), places=(source, str(folder / source))
        )
    found = read_json(path)
    try:
        description = found["base"]
        kinds = {"architecture": str, "config": dict, "dtype": str}
        said = {key: found[key] for key in kinds}
        if not all(said[key] is None or isinstance(said[key], kinds[key]) for key in kinds):
            raise TypeError("a value of a wrong type")
        if description is None:
            return AdapterDescription(base=None, **said)
        known = {field.name: description.get(field.name) for field in fields(AdapterBase)}
        lists = {
            name: tuple(description[name] or ()) for name in ("init_missing", "ignore_unexpected")
        }
        labels = None if description["labels"] is None else tuple(description["labels"])
        base = AdapterBase(**{**known, **lists, "labels": labels})
        places = [base.source]
        if description.get("relative"):
            places.append(os.path.normpath(folder / description["relative"]))
        return AdapterDescription(base=base, places=tuple(places), **said)
    except (KeyError, TypeError, AttributeError) as error:
        raise LoadError(f"{path} does not describe a model ({error}).") from None
