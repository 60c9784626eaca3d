"""Room 5, weights: the GGUF file. Its header is read, its tensors stay mapped until asked for.

    "GGUF", version, tensor count, metadata count
    metadata: key, type, value; ...
    tensor table: name, dimensions (the innermost first), number format, offset; ...
    padding, then the tensors
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.weights.dequantize import FORMATS, UNREAD, Format

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


@dataclass(frozen=True)
class Entry:
    """Where a tensor lies, and in which form."""

    shape: tuple[int, ...]
    format: Format
    start: int

    @property
    def blocks(self) -> int:
        return math.prod(self.shape) // self.format.size

    @property
    def end(self) -> int:
        return self.start + self.blocks * self.format.layout.itemsize


class Gguf:
    """`metadata` by key; the tensors' `entries` by the names that the file gives them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                # private: what a program writes into a mapped weight never reaches the file
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

    def read(self, name: str, mapped: bool) -> Tensor:
        """A tensor in float32; one that is stored so may stay in the file."""
        entry = self.entries[name]
        blocks = np.frombuffer(self.map, entry.format.layout, entry.blocks, entry.start)
        if not (mapped and blocks.dtype == np.float32 and blocks.flags.aligned):
            blocks = entry.format.dequantize(blocks)
        return torch.from_numpy(blocks).view(entry.shape)

    def wrong(self, what: str) -> GlassformerError:
        return GlassformerError(f"{self.path} {what}.")

    def _read_header(self) -> None:
        magic = self._bytes(4)
        if magic != MAGIC:
            raise self.wrong(f"is not a GGUF file: it begins with {magic!r}")
        version = self._number("<I")
        if version & 0xFFFF == 0:
            raise self.wrong("is a big-endian GGUF file; only little-endian ones are read")
        if version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            raise self.wrong(f"is of GGUF version {version}; the versions {known} are read")
        tensors, entries = self._number("<Q"), self._number("<Q")
        self.metadata: dict[str, Any] = {}
        for _ in range(entries):
            key = self._name()
            self.metadata[key] = self._value(key, self._number("<I"))
        if self.metadata.get("split.count", 1) not in (0, 1):
            raise self.wrong("is one part of several; join them with llama-gguf-split --merge")
        table = [self._described() for _ in range(tensors)]
        step = self.metadata.get("general.alignment", 32)
        if not isinstance(step, int) or step < 1:
            raise self.wrong(f"has general.alignment = {step!r}; it must be a whole number")
        begin = -(-self.at // step) * step
        self.entries: dict[str, Entry] = {}
        for name, shape, kind, offset in table:
            self.entries[name] = self._checked(name, Entry(shape, kind, begin + offset))
        if len(self.entries) != len(table):
            raise self.wrong("names a tensor twice; get it again")

    def _described(self) -> tuple[str, tuple[int, ...], Format, int]:
        name = self._name()
        count = self._number("<I")
        shape = tuple(self._number("<Q") for _ in range(count))[::-1]
        number, offset = self._number("<I"), self._number("<Q")
        if number not in FORMATS:
            known = ", ".join(kind.name for kind in FORMATS.values())
            raise self.wrong(
                f"holds {name} in the type {UNREAD.get(number, f'number {number}')}; "
                f"the types that are read are {known}"
            )
        return name, shape, FORMATS[number], offset

    def _checked(self, name: str, entry: Entry) -> Entry:
        if entry.blocks == 0 or not entry.shape or entry.shape[-1] % entry.format.size:
            raise self.wrong(
                f"gives {name} the shape {list(entry.shape)}, which {entry.format.name} blocks of "
                f"{entry.format.size} do not fill; get it again"
            )
        if entry.end > len(self.map):
            raise self.wrong(
                f"is cut off: {name} ends at byte {entry.end:,} of {len(self.map):,}; get it again"
            )
        return entry

    def _value(self, key: str, kind: int) -> Any:
        if kind == TEXT:
            return self._text()
        if kind == ARRAY:
            return self._array(key, self._number("<I"), self._number("<Q"))
        value = self._numbers(key, kind, 1)[0]
        # the decimal that was meant: 1e-05, not 9.999999747378752e-06
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
