"""safetensors files, memory-mapped until their tensors are read."""

from __future__ import annotations

import json
import math
import mmap
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from glassformer.errors import LoadError, UnsupportedError
from glassformer.storage.files import is_utf8
from glassformer.weights.formats.tensor_file import TensorFile

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


class SafetensorsFile(TensorFile):
    def __init__(self, path: Path) -> None:
        self.path = path
        if not is_utf8(str(path)):
            raise LoadError(f"The path {path} is not UTF-8, as safetensors needs it; rename it.")
        try:
            with safe_open(path, framework="pt"):  # checks the header against the file
                pass
        except (SafetensorError, OSError, ValueError) as error:
            raise LoadError(
                f"{path} is not a whole safetensors file ({error}); get it again."
            ) from None
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            self.header: dict[str, Any] = json.loads(file.read(size))
            self.start = 8 + size
            # a private mapping: writes to a mapped weight never reach the file
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self.header.pop("__metadata__", None)
        for name, entry in self.header.items():
            if entry["dtype"] not in DTYPES:
                raise UnsupportedError(f"{path}: {name} has the unknown type {entry['dtype']}.")
        self.shapes = {name: tuple(entry["shape"]) for name, entry in self.header.items()}
        for name, shape in self.shapes.items():
            if math.prod(max(size, 1) for size in shape) > 2**60:  # an empty one, of huge sizes
                raise LoadError(f"{path}: {name} has the sizes {list(shape)}; get it again.")

    def dtype(self, name: str) -> torch.dtype:
        return DTYPES[self.header[name]["dtype"]]

    def read(self, name: str, mapped: bool) -> Tensor:
        entry = self.header[name]
        dtype = DTYPES[entry["dtype"]]
        first, last = (self.start + offset for offset in entry["data_offsets"])
        if first == last:
            return torch.empty(entry["shape"], dtype=dtype)
        if mapped and first % dtype.itemsize == 0:
            count = (last - first) // dtype.itemsize
            flat = torch.frombuffer(self.map, dtype=dtype, count=count, offset=first)
        else:
            flat = torch.empty((last - first) // dtype.itemsize, dtype=dtype)
            with self.path.open("rb", buffering=0) as file:
                file.seek(first)
                _fill(file, memoryview(flat.view(torch.uint8).numpy().data), self.path)
        return flat.view(entry["shape"])


def _fill(file: Any, buffer: memoryview, path: Path) -> None:
    done = 0
    while done < len(buffer):
        got = file.readinto(buffer[done:])
        if not got:
            raise LoadError(f"{path} ended while it was read; get it again.")
        done += got
