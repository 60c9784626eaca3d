"""The header of a GGUF file, used by `text` (tokenizer) and `weights` (tensors).

"GGUF", version, tensor count, metadata count
metadata: key, type, value; ...
tensor table: name, dimensions (innermost first), number format, offset; ...
padding, then the tensors

It is read here, because loading a model must need only torch, numpy, safetensors and tokenizers.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import LoadError, UnsupportedError

MAGIC = b"GGUF"
VERSIONS = (2, 3)
LONGEST_NAME = 256
TEXT, ARRAY = 8, 9
SCALARS = {
    number: np.dtype(kind)
    for number, kind in {
        0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?",
        10: "<u8", 11: "<i8", 12: "<f8",
    }.items()
}  # fmt: skip


class GgufHeader:
    """The parsed header of a GGUF file.

    Attributes:
        metadata: Metadata values by key.
        tensors: Number of entries in the tensor table.
        at: Byte offset of the tensor table.
        map: The memory-mapped file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                # copy-on-write: a program that writes to a mapped weight never changes the file
                self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise self.wrong(f"cannot be read ({error.strerror})") from None
        except ValueError:
            raise self.wrong("is empty; get it again") from None
        self.at = 0
        try:
            self._read_header()
        except (struct.error, IndexError):
            raise self.wrong("ends inside its header; get it again") from None

    def wrong(self, what: str) -> LoadError:
        return LoadError(f"{self.path} {what}.")

    def unsupported(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{self.path} {what}.")

    def _read_header(self) -> None:
        magic = self._bytes(4)
        if magic != MAGIC:
            raise self.wrong(f"is not a GGUF file: it begins with {magic!r}")
        version = self._number("<I")
        if version & 0xFFFF == 0:
            raise self.unsupported("is a big-endian GGUF file; only little-endian ones are read")
        if version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            raise self.unsupported(f"is of GGUF version {version}; the versions {known} are read")
        self.tensors, entries = self._number("<Q"), self._number("<Q")
        self.metadata: dict[str, Any] = {}
        for _ in range(entries):
            key = self._name()
            self.metadata[key] = self._value(key, self._number("<I"))
        if self.metadata.get("split.count", 1) not in (0, 1):
            raise self.wrong("is one part of several; join them with llama-gguf-split --merge")

    def _value(self, key: str, kind: int) -> Any:
        if kind == TEXT:
            return self._text()
        if kind == ARRAY:
            return self._array(key, self._number("<I"), self._number("<Q"))
        value = self._numbers(key, kind, 1)[0]
        # the intended decimal: 1e-05, not 9.999999747378752e-06
        return float(str(value)) if value.dtype == np.float32 else value.item()

    def _array(self, key: str, kind: int, count: int) -> list[Any]:
        if kind == TEXT:
            return [self._text() for _ in range(count)]
        values: list[Any] = self._numbers(key, kind, count).tolist()
        return values

    def _numbers(self, key: str, kind: int, count: int) -> Any:
        if kind not in SCALARS:
            raise self.wrong(f"gives {key} a value of the unknown type {kind}; get it again")
        return np.frombuffer(self._bytes(count * SCALARS[kind].itemsize), SCALARS[kind])

    def _text(self) -> str:
        return self._bytes(self._number("<Q")).decode("utf-8", "replace")

    def _name(self) -> str:
        name = self._text()
        if not name.isprintable() or len(name) > LONGEST_NAME:
            raise self.wrong("has names in its header that are none; get it again")
        return name

    def _number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.map, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def _bytes(self, count: int) -> bytes:
        if self.at + count > len(self.map):
            raise IndexError
        self.at += count
        return self.map[self.at - count : self.at]


def is_gguf(path: Path) -> bool:
    return path.suffix == ".gguf" and path.is_file()
