"""Which cases of a parametrized test the quick suite runs: those that `quick` keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def quick(values: Iterable[Any], *kept: Any) -> list[Any]:
    """Parameters of a test: all of them with --all; without, the kept ones, or the first."""
    listed = list(values)
    unknown = [value for value in kept if value not in listed]
    assert not unknown, f"not among the values: {unknown}"
    chosen = kept or listed[:1]
    return [
        value if value in chosen else pytest.param(*_several(value), marks=pytest.mark.slow)
        for value in listed
    ]


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
