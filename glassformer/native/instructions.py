"""The CPU architecture that C++ sources are compiled for.

GLASSFORMER_CPU selects fewer instructions than the CPU has, so that a machine computes like an
older one.
"""

from __future__ import annotations

import os

from glassformer.errors import ConfigError

VARIABLE = "GLASSFORMER_CPU"
ARCHITECTURES = {"native": "native", "avx2": "x86-64-v3", "baseline": "x86-64"}  # for -march


def architecture() -> str:
    """Returns the compiler's -march value, as GLASSFORMER_CPU selects."""
    chosen = os.environ.get(VARIABLE) or "native"
    if chosen not in ARCHITECTURES:
        raise ConfigError(
            f"{VARIABLE} is {chosen!r}; set it to one of {', '.join(ARCHITECTURES)}, or not at all."
        )
    return ARCHITECTURES[chosen]
