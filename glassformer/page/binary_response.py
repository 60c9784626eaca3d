"""Binary response format of facts and arrays in one body, read by page/src/binary.ts."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

DTYPES = {torch.float16: "float16", torch.float32: "float32", torch.int32: "int32"}
ALIGNED = 8  # alignment of arrays, so that a browser can use them without a copy


@dataclass(frozen=True)
class BinaryResponse:
    """JSON facts, and arrays by name: a tensor and its axes."""

    facts: Mapping[str, Any]
    arrays: Mapping[str, tuple[Tensor, Sequence[str]]] = field(default_factory=dict)

    def body(self) -> bytes:
        """Returns the encoded body: header length, JSON header, aligned arrays."""
        told: dict[str, Any] = {}
        parts: list[bytes] = []
        start = 0
        for name, (tensor, axes) in self.arrays.items():
            data = tensor.detach().cpu().contiguous().numpy().tobytes()
            told[name] = {
                "shape": list(tensor.shape),
                "axes": list(axes),
                "dtype": DTYPES[tensor.dtype],
                "start": start,
            }
            parts += [data, bytes(-len(data) % ALIGNED)]
            start += len(data) + -len(data) % ALIGNED
        header = as_json({"facts": self.facts, "arrays": told})
        header += b" " * (-(len(header) + 4) % ALIGNED)
        return struct.pack("<I", len(header)) + header + b"".join(parts)


def as_json(value: Any) -> bytes:
    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":")).encode()


def plain(value: Any) -> Any:
    """Converts a value for JSON.

    Floats are rounded to six digits, more than a plot shows; non-finite ones, which JSON lacks,
    become null.
    """
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value
