"""Model families: one module for each, which converts a config.json to a `ModelSpec`.

Every module in this package that defines MODEL_TYPES is a family; it need not be registered
anywhere else.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Protocol

import glassformer.baselines  # noqa: F401  registers layers that families use
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.families._shared.synonyms import SYNONYMS
from glassformer.families._shared.unread_keys import check_unread, remarks
from glassformer.families._shared.weight_rules import WeightRule
from glassformer.spec import ModelSpec


class Family(Protocol):
    """What a family module defines.

    `spec_from_config` converts a config.json to a `ModelSpec`; `weight_rules` maps the published
    tensors to those of the model.
    """

    NAME: str
    MODEL_TYPES: tuple[str, ...]
    CLASSES: Mapping[str, str]  # published class -> prefix of its body ({base} in rules)
    IGNORED: Mapping[str, str]  # config keys without effect, each with the reason
    UNUSED_TENSORS: Mapping[str, str]  # tensors without effect, each with the reason
    TINY: Sequence[Mapping[str, Any]]  # small configs for tests
    PRESETS: Mapping[str, tuple[str, Mapping[str, Any]]]  # name -> class, config

    def spec_from_config(self, config: ConfigReader, architecture: str) -> ModelSpec: ...

    def weight_rules(self, model: ModelSpec) -> Sequence[WeightRule]: ...


@cache
def families() -> dict[str, Family]:
    """Returns all families by the `model_type` of their config files."""
    modules = (
        import_module(f"{__name__}.{found.name}")
        for found in iter_modules(__path__)
        if found.name != "_shared"
    )
    return {
        model_type: module
        for module in modules
        for model_type in getattr(module, "MODEL_TYPES", ())
    }


def find_family(config: Mapping[str, Any]) -> Family:
    """Returns the family of a config.json; raises an error if its model_type is unknown."""
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or model_type not in families():
        known = ", ".join(sorted(families()))
        if model_type is None:
            raise ConfigError(
                "config.json has no model_type, and neither its class nor the tensors say which it "
                f"is: add one of {known}, or give the class to load as `architecture`."
            )
        raise UnsupportedError(
            f"config.json has the model_type {model_type!r}; known are {known}.", field="model_type"
        )
    return families()[model_type]


def model_type_of(architecture: str) -> str | None:
    """Returns the model type of a published class, or None."""
    for model_type, family in families().items():
        if architecture in classes_of(family, model_type):
            return model_type
    return None


def classes_of(family: Family, model_type: str) -> list[str]:
    """Returns the published classes of one model type; a family may have several model types."""
    marks = {kind: kind.replace("-", "").lower() for kind in family.MODEL_TYPES}
    others = [mark for mark in marks.values() if mark != marks[model_type]]

    def belongs(name: str) -> bool:
        found = [mark for mark in marks.values() if name.lower().startswith(mark)]
        return max(found, key=len, default="") not in others

    return [name for name in family.CLASSES if belongs(name)]


@dataclass(frozen=True)
class ParsedConfig:
    """The result of reading a config.json.

    Attributes:
        spec: The model it describes.
        used: The keys that were read.
        unread: The keys that nothing reads, with their values.
    """

    spec: ModelSpec
    used: frozenset[str]
    unread: Mapping[str, Any]


def reader_of(config: Mapping[str, Any]) -> ConfigReader:
    """Returns a `ConfigReader` with the family's key synonyms."""
    family = find_family(config)
    return ConfigReader(config, family.NAME, SYNONYMS.get(config["model_type"]))


def read(config: Mapping[str, Any], architecture: str) -> ParsedConfig:
    """Reads a config.json.

    Args:
        config: The contents of config.json.
        architecture: The published class to read it as.

    Returns:
        The model specification, and which keys were read.

    Raises:
        GlassformerError: The class is unknown, a value is invalid, or the reference implementation
            computes a different model because of a key that is not read here.
    """
    family = find_family(config)
    if architecture not in family.CLASSES:
        raise ConfigError(
            f"{family.NAME} has no class {architecture!r}; it has {', '.join(family.CLASSES)}."
        )
    reader = reader_of(config)
    spec = family.spec_from_config(reader, architecture)
    unread = reader.unread(family.IGNORED)
    check_unread(unread, config, family.NAME, spec)
    return ParsedConfig(spec, frozenset(reader.used), unread)


def spec_from_config(config: Mapping[str, Any], architecture: str) -> ModelSpec:
    """Returns the `ModelSpec` of a config.json, read as the published class `architecture`."""
    return read(config, architecture).spec


def remarks_on(config: Mapping[str, Any], parsed: ParsedConfig) -> list[str]:
    """Returns sentences about unread keys that may have been meant to have an effect."""
    absent = [key for key in parsed.used if config.get(key) is None]
    family = find_family(config).NAME
    return remarks(parsed.unread, absent, _keys_of_families(), family) if parsed.unread else []


@cache
def _keys_of_families() -> frozenset[str]:
    """Returns all keys that any family reads."""
    keys: set[str] = set()
    for model_type, family in families().items():
        for tiny in family.TINY:
            reader = ConfigReader({"model_type": model_type, **tiny}, family.NAME)
            family.spec_from_config(reader, classes_of(family, model_type)[-1])
            keys |= reader.used
    return frozenset(keys)


@cache
def presets() -> dict[str, dict[str, Any]]:
    """Returns the config.json contents of all presets by their names."""
    return {
        preset: {"model_type": model_type, "architectures": [architecture], **config}
        for model_type, family in families().items()
        for preset, (architecture, config) in family.PRESETS.items()
        if architecture in classes_of(family, model_type)
    }


def find_preset(name: str) -> dict[str, Any]:
    """Returns the config.json contents of a preset by its name."""
    known = presets()
    if name not in known:
        raise ConfigError(f"There is no preset {name!r}; there are {', '.join(sorted(known))}.")
    return copy.deepcopy(known[name])
