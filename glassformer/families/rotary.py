"""Room 4, families: rotary positions as config files describe them, in both generations of keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from glassformer.errors import GlassformerError
from glassformer.families.config import Config
from glassformer.spec import Rotary, RotaryScaling


def rotary(config: Config, dim: int, longest: int) -> Rotary:
    """From `rope_parameters`, or the older `rope_theta` and `rope_scaling`."""
    values: dict[str, Any] = {"rope_theta": config.number("rope_theta", 10_000.0)}
    values |= config.optional("rope_scaling", {})
    values |= config.optional("rope_parameters", {})
    return rotary_of(values, dim, longest)


def partial_rotary(
    config: Config, dim: int, longest: int, share: float, share_key: str, theta_key: str
) -> Rotary:
    """One that turns a share of each head's dimensions; the two keys are those of older files."""
    values: dict[str, Any] = {
        "rope_theta": config.number(theta_key, 10_000.0),
        "partial_rotary_factor": config.number(share_key, share),
    }
    values |= config.optional("rope_scaling", {})
    values |= config.optional("rope_parameters", {})
    return rotary_of(values, int(dim * values["partial_rotary_factor"]), longest)


def rotary_of(values: Mapping[str, Any], dim: int, longest: int) -> Rotary:
    kind = values.get("rope_type", values.get("type", "default"))
    theta = float(values["rope_theta"])
    if kind == "default":
        return Rotary(dim=dim, theta=theta, length=longest)
    if kind not in ("linear", "llama3", "yarn"):
        raise GlassformerError(
            f"config.json asks for rotary positions of type {kind!r}; "
            "default, linear, llama3 and yarn are known."
        )
    trained = int(values.get("original_max_position_embeddings") or longest)
    factor = float(values.get("factor") or longest / trained)
    details: dict[str, Any] = {}
    if kind == "llama3":
        details = {"low": values["low_freq_factor"], "high": values["high_freq_factor"]}
    elif kind == "yarn":
        magnitude = values.get("attention_factor")
        details = {
            "low": float(values.get("beta_slow") or 1),
            "high": float(values.get("beta_fast") or 32),
            "truncate": bool(values.get("truncate", True)),
            "magnitude": yarn_magnitude(factor) if magnitude is None else float(magnitude),
        }
    scaling = RotaryScaling(kind=kind, factor=factor, trained_length=trained, **details)
    if kind != "llama3":  # whose max_position_embeddings counts the stretched positions
        longest = max(longest, int(trained * factor))
    return Rotary(dim=dim, theta=theta, scaling=scaling, length=longest)


def yarn_magnitude(factor: float) -> float:
    """Peng et al. (2023), equation 22."""
    return 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0
