"""Recovery of Llama 3's rope_scaling from the rope_freqs.weight tensor of a GGUF file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from glassformer.errors import UnsupportedError

LOW, HIGH, TRAINED = 1.0, 4.0, 8192  # as in every published Llama 3


def llama3_scaling(config: Mapping[str, Any], factors: Sequence[float]) -> dict[str, Any] | None:
    """Infers the Llama 3 scaling settings from the divisors of the frequencies.

    Args:
        config: The model's config; `rope_theta` and `head_dim` are read.
        factors: The contents of rope_freqs.weight: the divisor of each frequency.

    Returns:
        The `rope_scaling` entry of config.json, or None if no frequency is scaled.

    Raises:
        UnsupportedError: The divisors do not follow Llama 3's formula.
    """
    theta, dim, factor = config["rope_theta"], config["head_dim"], max(factors)
    if factor == 1.0:
        return None
    turns = [theta ** (-2 * i / dim) / (2 * math.pi) for i in range(dim // 2)]  # turns per position
    trained = TRAINED
    between = [(f, t) for f, t in zip(factors, turns, strict=False) if 1.0 < f < factor]
    if between:
        divided, turn = between[0]
        trained = round((LOW + kept(divided, factor) * (HIGH - LOW)) / turn)
    smooth = [min(max((trained * t - LOW) / (HIGH - LOW), 0.0), 1.0) for t in turns]
    expected = [1 / ((1 - s) / factor + s) for s in smooth]
    if len(factors) != len(turns) or not all(map(near, factors, expected)):
        raise UnsupportedError(
            "The GGUF file has a rope_freqs.weight that is not made as Llama 3's is, and no "
            "config.json can say it."
        )
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": LOW,
        "high_freq_factor": HIGH,
        "original_max_position_embeddings": trained,
    }


def kept(divided: float, factor: float) -> float:
    """Returns the fraction of a frequency that was kept; the rest was divided by `factor`."""
    return (1 / divided - 1 / factor) / (1 - 1 / factor)


def near(value: float, other: float) -> bool:
    return math.isclose(value, other, rel_tol=1e-4)
