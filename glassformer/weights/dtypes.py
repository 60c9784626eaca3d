"""The dtypes available for computation, by name."""

from __future__ import annotations

import torch

from glassformer.errors import ConfigError

DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float64": torch.float64,
}


def as_dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    """Converts a dtype name to a `torch.dtype` and checks that computation supports it."""
    found = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if dtype is None or found in DTYPES.values():
        return found
    name = str(dtype).removeprefix("torch.")
    raise ConfigError(f"There is no dtype {name!r}; choose one of {', '.join(DTYPES)}.")


def is_float8(dtype: torch.dtype) -> bool:
    """Whether this is an 8-bit float, which is only stored and never computed with."""
    return dtype.is_floating_point and dtype.itemsize == 1
