"""Reads answers with arrays, as page/src/binary.ts describes them."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

DTYPES = {"float16": "<f2", "float32": "<f4", "int32": "<i4"}


def unpacked(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    (size,) = struct.unpack_from("<I", body)
    header = json.loads(body[4 : 4 + size])
    assert (4 + size) % 8 == 0
    arrays = {}
    for name, told in header["arrays"].items():
        assert told["start"] % 8 == 0 and len(told["axes"]) == len(told["shape"])
        count = int(np.prod(told["shape"]))
        found = np.frombuffer(body, DTYPES[told["dtype"]], count, 4 + size + told["start"])
        arrays[name] = found.reshape(told["shape"])
    return header["metadata"], arrays
