"""The binary response format: JSON metadata and arrays in one body.

The body is little-endian: a uint32 n; n bytes of JSON, UTF-8, with spaces at its end so that 4 + n
is a multiple of 8; then the arrays, each at a multiple of 8 bytes from the end of the JSON. This
JSON is `{"metadata": ..., "arrays": {name: {"shape", "axes", "dtype", "start"}}}`. The page reads
the body in page/src/binary.ts.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

DTYPES = {torch.float16: "float16", torch.float32: "float32", torch.int32: "int32"}
ALIGNMENT = 8  # of arrays, so that a browser can use them without a copy

Metadata = TypeVar("Metadata")
ArrayName = TypeVar("ArrayName", bound=str)


@dataclass(frozen=True)
class BinaryResponse(Generic[Metadata, ArrayName]):
    """JSON metadata, and arrays by name: a tensor and its axes.

    A handler returns a subclass that declares the type of the metadata and the names of the arrays.
    """

    metadata: Metadata
    arrays: Mapping[str, tuple[Tensor, Sequence[str]]] = field(default_factory=dict)

    def body(self) -> bytes:
        """Returns the encoded body: header length, JSON header, aligned arrays."""
        headers: dict[str, Any] = {}
        parts: list[bytes] = []
        start = 0
        for name, (tensor, axes) in self.arrays.items():
            data = tensor.detach().cpu().contiguous().numpy().tobytes()
            headers[name] = {
                "shape": list(tensor.shape),
                "axes": list(axes),
                "dtype": DTYPES[tensor.dtype],
                "start": start,
            }
            parts += [data, bytes(-len(data) % ALIGNMENT)]
            start += len(data) + -len(data) % ALIGNMENT
        header = as_json({"metadata": self.metadata, "arrays": headers})
        header += b" " * (-(len(header) + 4) % ALIGNMENT)
        return struct.pack("<I", len(header)) + header + b"".join(parts)


def as_json(value: Any) -> bytes:
    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":")).encode()


def plain(value: Any) -> Any:
    """Converts a value for JSON.

    Floats are rounded to six digits, more than a plot shows; non-finite ones, which JSON lacks,
    become null. A dataclass becomes an object of its fields.
    """
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    return value
