"""Models without a published family: config.json contains the spec, tensors keep our names."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from glassformer import spec
from glassformer.errors import ConfigError, GlassformerError
from glassformer.families._shared.config_reader import LARGEST, MOST, ConfigReader
from glassformer.families._shared.weight_rules import WeightRule

NAME = "Glassformer"
MODEL_TYPES = ("glassformer",)
CLASSES = {"Glassformer": ""}
IGNORED: Mapping[str, str] = {}
UNUSED_TENSORS: Mapping[str, str] = {}
TINY: tuple[dict[str, Any], ...] = ()
PRESETS: Mapping[str, tuple[str, dict[str, Any]]] = {}
NAMES = {  # of classes in config.json; other classes are written without "Spec"
    "ModelSpec": "ModelSpec",
    "TokenEmbeddingSpec": "Embed",
    "AudioFramesSpec": "Frames",
    "PatchEmbeddingSpec": "Patches",
    "AttentionPattern": "Pattern",
    "BlockSparsePattern": "Blocks",
    "FeedForwardSpec": "FFN",
    "MemoryHopSpec": "Hop",
    "SpanBeamSpec": "Beam",
    "PositionTableSpec": "Table",
    "T5BiasSpec": "Buckets",
    "RelativePositionSpec": "Relative",
}
FIELDS = {  # of specs in config.json, where they differ from the names in the code
    "AdaptiveSpec": {"div_value": "shrink"},
    "TokenEmbeddingSpec": {"embedding_size": "factor", "has_query_stream": "asks"},
    "AudioFramesSpec": {"num_mel_bins": "bands"},
    "PatchEmbeddingSpec": {
        "image_size": "image",
        "patch_size": "patch",
        "has_mask_token": "blank",
    },
    "AttentionSpec": {
        "separate_global_projections": "own_global",
        "compression_factor": "compress",
    },
    "BlockSparsePattern": {"block_size": "size", "num_random_blocks": "random"},
    "HeadSpec": {
        "pooling": "pick",
        "num_outputs": "outputs",
        "multiple_choice": "choices",
        "num_weighted_layers": "mixes",
        "pixel_shuffle": "pixels",
        "prediction_offset": "ahead",
        "loss_weight": "weight",
    },
    "ModelSpec": {
        "tied_weights": "tie",
        "optional_ties": "loose",
        "shift_right": "shift_text",
        "decoder_start": "start_from_last",
    },
    "PositionTableSpec": {"padding_idx": "pad"},
    "T5BiasSpec": {"num_buckets": "buckets"},
    "DisentangledSpec": {
        "content_to_position": "to_position",
        "position_to_content": "to_content",
        "shared_projections": "shared",
    },
    "RelativePositionSpec": {
        "clamp_length": "clamp",
        "bidirectional": "both_ways",
        "shared_biases": "shared",
    },
    "MemorySpec": {"reuse_length": "reuse", "zero_initialized": "blank"},
    "StackSpec": {"projection_width": "project"},
}
ADDED = {"HeadSpec": {"stack": "last"}}  # later fields, written only with other values than these
VALUES = {"start_from_last": {False: "start_token", True: "last_token"}}  # in config.json: in code


def spec_from_config(config: ConfigReader, architecture: str) -> spec.ModelSpec:
    try:
        model = from_plain(config.optional("spec"), spec.ModelSpec)
    except GlassformerError:  # a ConfigError is a ValueError
        raise
    except (TypeError, KeyError, ValueError, AttributeError, IndexError) as error:
        raise ConfigError(f"config.json's spec does not describe a model: {error}.") from None
    if not isinstance(model, spec.ModelSpec):
        raise ConfigError("config.json has no spec, which describes a model of this type.")
    return model


def weight_rules(model: spec.ModelSpec) -> tuple[WeightRule, ...]:
    return (WeightRule("{name}", "{name}"),)


def config_of(model: spec.ModelSpec) -> dict[str, Any]:
    """Returns the config.json contents of a model."""
    return {"model_type": "glassformer", "architectures": ["Glassformer"], "spec": to_plain(model)}


def to_plain(value: Any) -> Any:
    """Converts a spec to JSON values; "is" holds the name of each dataclass."""
    if is_dataclass(value):
        added = ADDED.get(type(value).__name__, {})
        names = {
            field: name
            for field, name in names_in_file(type(value)).items()
            if field not in added or getattr(value, field) != added[field]
        }
        plain = {names[field]: to_plain(getattr(value, field)) for field in names}
        for name in VALUES.keys() & plain.keys():
            plain[name] = next(key for key, held in VALUES[name].items() if held == plain[name])
        return {"is": name_in_file(type(value)), **plain}
    return [to_plain(item) for item in value] if isinstance(value, tuple) else value


def from_plain(value: Any, hint: Any) -> Any:
    """Inverse of `to_plain`; `hint` is the declared type of the value."""
    origin, options = get_origin(hint), get_args(hint)
    if isinstance(value, list):
        several = next((o for o in (hint, *options) if get_origin(o) is tuple), None)
        if several is None:
            raise ValueError(f"{value!r} is not {hint}")
        return tuple(from_plain(item, item_hint(several, i)) for i, item in enumerate(value))
    if not isinstance(value, dict):
        if not is_of_type(value, hint):
            raise ValueError(f"{value!r} is not {getattr(hint, '__name__', hint)}")
        return value
    kinds = options if origin in (Union, types.UnionType) else (hint,)
    kind: Any = next((kind for kind in kinds if name_in_file(kind) == value["is"]), None)
    if kind is None:
        raise ValueError(f"{value['is']!r} is not known here")
    hints = get_type_hints(kind)
    names = {in_file: name for name, in_file in names_in_file(kind).items()}
    known = {}
    for name, item in value.items():
        if name != "is":
            held = VALUES[name][item] if name in VALUES else item
            known[names[name]] = from_plain(held, hints[names[name]])
    return kind(**known)


def item_hint(hint: Any, index: int) -> Any:
    """Returns the type of an item of a tuple, which all items share or each has its own of."""
    options = get_args(hint)
    return options[0] if options[-1] is Ellipsis else options[index]


def is_of_type(value: Any, hint: Any) -> bool:
    """Whether a number, text or None is of a declared type, and a number in the range of all."""
    origin, options = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(is_of_type(value, option) for option in options)
    if origin is Literal:
        return value in options
    if isinstance(value, bool) or hint not in (int, float):
        return type(value) is hint
    if hint is int:
        return type(value) is int and 0 <= value <= LARGEST
    return type(value) in (int, float) and abs(value) <= MOST


def name_in_file(kind: type) -> str:
    """The name of a spec class in config.json, which stays when the class is renamed."""
    return NAMES.get(kind.__name__, kind.__name__.removesuffix("Spec"))


def names_in_file(kind: type) -> dict[str, str]:
    """Maps the fields of a spec class to their names in config.json, which stay when renamed."""
    renamed = FIELDS.get(kind.__name__, {})
    return {field.name: renamed.get(field.name, field.name) for field in fields(kind)}
