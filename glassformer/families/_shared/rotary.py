"""Rotary positions from config files, in both the current and the older keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.families._shared.config_reader import ConfigReader
from glassformer.spec import RotaryScaling, RotarySpec

WITHOUT_EFFECT = {
    "finetuned": "says how the weights were trained",
    "original_max_position_embeddings": "default and linear do not depend on it",
}


def rotary(config: ConfigReader, dim: int, longest: int) -> RotarySpec:
    """Reads rotary positions from `rope_parameters` or the older `rope_theta`, `rope_scaling`."""
    values = {"rope_theta": config.positive("rope_theta", 10_000.0), **rope_parameters(config)}
    return rotary_of(config, values, dim, longest)


def partial_rotary(
    config: ConfigReader, dim: int, longest: int, share: float, share_key: str, theta_key: str
) -> RotarySpec:
    """Reads rotary positions that rotate only a fraction of each head's dimensions.

    Args:
        config: The config.
        dim: The head size.
        longest: The maximum number of positions.
        share: The default fraction.
        share_key: The older key for the fraction.
        theta_key: The older key for theta.
    """
    values: dict[str, Any] = {
        "rope_theta": config.positive(theta_key, 10_000.0),
        "partial_rotary_factor": config.number(share_key, share, least=0, most=1),
        **rope_parameters(config),
    }
    read = ConfigReader(values, config.family)
    share = read.number("partial_rotary_factor", least=0, most=1)
    del values["partial_rotary_factor"]
    return rotary_of(config, values, int(dim * share), longest)


def rope_parameters(config: ConfigReader) -> dict[str, Any]:
    """Returns the rotary settings of a config.

    If a file has both generations of keys, the reference implementation reads `rope_scaling`. An
    original_max_position_embeddings at the top level overrides one inside.
    """
    new, old = config.table("rope_parameters"), config.table("rope_scaling")
    key = "original_max_position_embeddings"
    value = config.optional(key)
    return {**(old or new)} if value is None else {**(old or new), key: value}


def rope_by_layer(config: ConfigReader) -> Mapping[str, Any]:
    """Returns `rope_parameters` of a family with separate settings for sliding-window layers."""
    values = {kind: one for kind, one in config.table("rope_parameters").items() if one is not None}
    known = values.keys() <= {"full_attention", "sliding_attention"}
    if not known or not all(isinstance(one, Mapping) for one in values.values()):
        raise config.wrong("rope_parameters", "two objects, full_attention and sliding_attention")
    return values


def rotary_of(
    config: ConfigReader, values: Mapping[str, Any], dim: int, longest: int
) -> RotarySpec:
    """Builds the specification of rotary positions.

    Every key of `values` must be used, or have no effect by the formula of its type; any other key
    is an error.
    """
    read = ConfigReader(values, config.family)
    kind = read.word("rope_type", read.word("type", "default"))
    theta = read.positive("rope_theta")
    scaling = None if kind == "default" else scaling_of(read, kind, longest)
    unread = sorted(
        key
        for key, value in values.items()
        if value is not None and key not in read.used and key not in WITHOUT_EFFECT
    )
    if unread:
        raise ConfigError(
            f"config.json describes rotary positions of the rope_type {kind!r} with "
            f"{', '.join(unread)}, which this type does not have; remove what is not meant."
        )
    if scaling is not None and kind != "llama3":  # for llama3, `longest` includes the scaling
        longest = max(longest, int(scaling.trained_length * scaling.factor))
    return RotarySpec(dim=dim, theta=theta, scaling=scaling, length=longest)


def scaling_of(read: ConfigReader, kind: str, longest: int) -> RotaryScaling:
    if kind == "linear":
        return RotaryScaling(kind="linear", factor=read.positive("factor"), trained_length=longest)
    if kind not in ("llama3", "yarn"):
        raise UnsupportedError(
            f"config.json asks for rotary positions of the rope_type {kind!r}, which are not "
            "computed here; default, linear, llama3 and yarn are.",
            field="rope_type",
        )
    trained = read.integer("original_max_position_embeddings", longest)
    if kind == "llama3":
        return RotaryScaling(
            kind="llama3",
            factor=read.positive("factor"),
            trained_length=trained,
            low=read.number("low_freq_factor"),
            high=read.number("high_freq_factor"),
        )
    factor = read.number("factor", longest / max(trained, 1))
    return RotaryScaling(
        kind="yarn",
        factor=factor,
        trained_length=trained,
        low=read.number("beta_slow", 1.0) or 1.0,
        high=read.number("beta_fast", 32.0) or 32.0,
        truncate=bool(read.nullable("truncate", True)),
        magnitude=attention_factor(read, factor),
    )


def attention_factor(read: ConfigReader, factor: float) -> float:
    """Returns the given factor, or its default.

    With `mscale` and `mscale_all_dim`, the default is the ratio of their magnitudes (DeepSeek-V2).
    """
    over, under = (read.number(key, 0.0, least=0) for key in ("mscale", "mscale_all_dim"))
    if over and under:
        usual = yarn_magnitude(factor, over) / yarn_magnitude(factor, under)
    else:
        usual = yarn_magnitude(factor)
    return read.number("attention_factor", usual)


def yarn_magnitude(factor: float, weight: float = 1.0) -> float:
    """Returns YaRN's attention scaling factor (Peng et al., 2023, equation 22)."""
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0
