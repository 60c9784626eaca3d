"""Tensors of a GGUF file, memory-mapped until they are read.

The header is read here, because the package `gguf` trusts its sizes and offsets.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from glassformer.rounding import round_up
from glassformer.storage.gguf_header import GgufHeader
from glassformer.weights.formats import gguf_config
from glassformer.weights.formats.gguf_dequantize import FORMATS, UNREAD, Format
from glassformer.weights.formats.gguf_names import SCALED_FREQUENCIES, published
from glassformer.weights.formats.tensor_file import SingleFile


@dataclass(frozen=True)
class GgufTensor:
    """Position, shape and number format of a tensor in the file."""

    shape: tuple[int, ...]
    format: Format
    start: int

    @property
    def blocks(self) -> int:
        return math.prod(self.shape) // self.format.size

    @property
    def end(self) -> int:
        return self.start + self.blocks * self.format.layout.itemsize


class GgufTensors(GgufHeader):
    """A GGUF file whose `entries` describe the tensors by their names in the file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            self._read_table()
        except (struct.error, IndexError):
            raise self.wrong("ends inside its header; get it again") from None

    def _read_table(self) -> None:
        table = [self._described() for _ in range(self.tensors)]
        step = self.metadata.get("general.alignment", 32)
        if not isinstance(step, int) or step < 1:
            raise self.wrong(f"has general.alignment = {step!r}; it must be a whole number")
        begin = round_up(self.at, step)
        self.entries: dict[str, GgufTensor] = {}
        for name, shape, kind, offset in table:
            self.entries[name] = self._checked(name, GgufTensor(shape, kind, begin + offset))
        if len(self.entries) != len(table):
            raise self.wrong("names a tensor twice; get it again")

    def read(self, name: str, mapped: bool) -> Tensor:
        """Reads a tensor as float32; with `mapped`, aligned float32 data stays memory-mapped."""
        entry = self.entries[name]
        blocks = np.frombuffer(self.map, entry.format.layout, entry.blocks, entry.start)
        if not (mapped and blocks.dtype == np.float32 and blocks.flags.aligned):
            blocks = entry.format.dequantize(blocks)
        return torch.from_numpy(blocks).view(entry.shape)

    def _described(self) -> tuple[str, tuple[int, ...], Format, int]:
        name = self._name()
        count = self._number("<I")
        shape = tuple(self._number("<Q") for _ in range(count))[::-1]
        number, offset = self._number("<I"), self._number("<Q")
        if number not in FORMATS:
            known = ", ".join(kind.name for kind in FORMATS.values())
            raise self.unsupported(
                f"holds {name} in the type {UNREAD.get(number, f'number {number}')}; "
                f"the types that are read are {known}"
            )
        return name, shape, FORMATS[number], offset

    def _checked(self, name: str, entry: GgufTensor) -> GgufTensor:
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


class GgufFile(SingleFile):
    """A GGUF file; quantized tensors are read as float32."""

    def __init__(self, path: Path) -> None:
        self.file = GgufTensors(path)
        shapes = {name: entry.shape for name, entry in self.file.entries.items()}
        factors = None
        if SCALED_FREQUENCIES in shapes:
            factors = self.file.read(SCALED_FREQUENCIES, mapped=True).tolist()
        self.config = gguf_config.config_of(
            gguf_config.GgufMetadata(self.file.metadata, shapes, factors)
        )
        self.origins = {}
        self.shapes = {}
        for name, shape in shapes.items():
            hf, undo = published(name, self.config)
            self.origins[hf] = name, undo
            self.shapes[hf] = tuple(undo(torch.empty(shape, device="meta")).shape)

    def read(self, name: str, mapped: bool) -> Tensor:
        origin, undo = self.origins[name]
        return undo(self.file.read(origin, mapped))
