"""Lazy access by name to the tensors of a checkpoint.

safetensors files, single or sharded, are memory-mapped. A legacy pytorch_model.bin is a pickle and
is read by PyTorch's restricted unpickler, which can build tensors and nothing else. A GGUF file
(see `gguf.py`), a llama2.c .bin file, or OpenAI's .pt file of Whisper contains a whole checkpoint,
including its config.
"""

from __future__ import annotations

import json
import math
import mmap
import pickle
import re
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import Any, TypeGuard

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from glassformer.errors import LoadError, UnsupportedError
from glassformer.storage.folders import complete_pending_save
from glassformer.storage.names import named_in
from glassformer.weights.dtypes import is_float8
from glassformer.weights.formats import gguf_config, llama2c, openai_whisper
from glassformer.weights.formats.gguf import GgufTensors
from glassformer.weights.formats.gguf_names import SCALED_FREQUENCIES, published
from glassformer.weights.tensor_names import inside, published_names, whole_weight

WHOLE = ("model.safetensors", "pytorch_model.bin")
HOLDERS = ("state_dict", "model_state_dict", "model", "module")  # keys of training checkpoints
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


class TensorFile(ABC):
    """One file: shapes by tensor name, and access to the tensors."""

    shapes: dict[str, tuple[int, ...]]
    others: tuple[str, ...] = ()  # entries that are not tensors

    @abstractmethod
    def read(self, name: str, mapped: bool) -> Tensor:
        """Reads a tensor.

        Args:
            name: The tensor's name in the file.
            mapped: Leaves the data memory-mapped until it is used; otherwise the tensor is a copy.
        """

    def dtype(self, name: str) -> torch.dtype:
        """Returns the dtype in which a tensor is stored, or is read if it is quantized."""
        return torch.float32


class SafetensorsFile(TensorFile):
    def __init__(self, path: Path) -> None:
        self.path = path
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


class PickleFile(TensorFile):
    """A pickle, read with `weights_only`: only tensors, storages and dictionaries are unpickled."""

    def __init__(self, path: Path) -> None:
        state = _unwrapped(_unpickled(path))
        self.tensors: dict[str, Tensor] = {
            str(name): value for name, value in state.items() if isinstance(value, Tensor)
        }
        if not self.tensors:
            raise LoadError(f"{path} is not a table of tensors; get a checkpoint's weights.")
        self.others = tuple(str(name) for name in state if str(name) not in self.tensors)
        self.shapes = {name: tuple(t.shape) for name, t in self.tensors.items()}

    def dtype(self, name: str) -> torch.dtype:
        return self.tensors[name].dtype

    def read(self, name: str, mapped: bool) -> Tensor:
        return self.tensors[name] if mapped else self.tensors[name].clone()


def _unpickled(path: Path) -> Any:
    try:
        return torch.load(
            path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path) or None
        )
    except pickle.UnpicklingError as error:
        asked = re.search(r"GLOBAL ([\w.]+)", str(error))
        raise LoadError(
            f"{path} holds something else than tensors"
            f"{f' (it asks for {asked[1]})' if asked else ''} and was not read: a pickle can "
            "run code; ask its maker for safetensors."
        ) from None
    except (RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        raise LoadError(
            f"{path} is not a whole PyTorch file ({str(error).splitlines()[0]}); get it again."
        ) from None


def _unwrapped(state: Any) -> dict[Any, Any]:
    """Finds the model's tensors in a training checkpoint, which also holds the optimizer's."""
    if not isinstance(state, dict):
        return {}
    inner = next((state[key] for key in HOLDERS if isinstance(state.get(key), dict)), None)
    return state if inner is None else _unwrapped(inner)


def _is_table(state: Any) -> TypeGuard[dict[str, Tensor]]:
    return isinstance(state, dict) and all(isinstance(t, Tensor) for t in state.values())


class SingleFile(TensorFile):
    """A checkpoint in a single file.

    `config` is the equivalent of config.json; tensors have their published names and layouts.
    """

    config: dict[str, Any]


class Llama2cFile(SingleFile):
    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as error:
            raise LoadError(f"{path} cannot be read ({error}).") from None
        header = llama2c.read_header(self.map[: llama2c.START])
        if isinstance(header, str):
            raise LoadError(f"{path} {header}.")
        self.config = llama2c.config_of(header)
        self.origins = {}
        self.shapes = {}
        end = header.start
        for name, shape, undo in llama2c.layout(header):
            if name not in llama2c.ROTATIONS:
                self.origins[name] = end, undo
                self.shapes[name] = shape
            end += 4 * math.prod(shape)
            if end > len(self.map):
                break
        if end > len(self.map):
            raise LoadError(
                f"{path} is cut off: {name} ends at byte {end:,} of {len(self.map):,}; get it "
                "again, or, if it is no llama2.c file, load the folder it is in."
            )
        if end < len(self.map):
            raise LoadError(
                f"{path} has {len(self.map):,} bytes, and by its header {end:,}; get it again."
            )

    def read(self, name: str, mapped: bool) -> Tensor:
        start, undo = self.origins[name]
        shape = self.shapes[name]
        flat = torch.frombuffer(
            self.map, dtype=torch.float32, count=math.prod(shape), offset=start
        ).view(shape)
        return undo(flat if mapped else flat.clone())


class OpenAIFile(SingleFile, PickleFile):
    """OpenAI's Whisper file: a dictionary of `dims` and `model_state_dict`."""

    def __init__(self, path: Path) -> None:
        state = _unpickled(path)
        whole = state if isinstance(state, dict) else {}
        dims, tensors = whole.get("dims"), whole.get("model_state_dict")
        if not isinstance(dims, dict) or not _is_table(tensors):
            raise LoadError(
                f"{path} has no dims and model_state_dict, so it is not OpenAI's Whisper; other "
                ".pt files are not read, save the model as a folder."
            )
        self.config = openai_whisper.config_of(dims)
        self.tensors = {openai_whisper.published(name): t for name, t in tensors.items()}
        self.shapes = {name: tuple(t.shape) for name, t in self.tensors.items()}


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
            theirs, undo = published(name, self.config)
            self.origins[theirs] = name, undo
            self.shapes[theirs] = tuple(undo(torch.empty(shape, device="meta")).shape)

    def read(self, name: str, mapped: bool) -> Tensor:
        origin, undo = self.origins[name]
        return undo(self.file.read(origin, mapped))


SINGLE: dict[str, Callable[[Path], SingleFile]] = {
    ".gguf": GgufFile,
    ".bin": Llama2cFile,
    ".pt": OpenAIFile,
}
READERS: dict[str, Callable[[Path], TensorFile]] = {".safetensors": SafetensorsFile}


def is_single(path: Path) -> bool:
    """Whether the path is a checkpoint in a single file rather than a folder."""
    return path.suffix in SINGLE and path.is_file()


def is_openai(path: Path) -> bool:
    """Whether the path is OpenAI's single-file format of a Whisper model."""
    return is_single(path) and SINGLE[path.suffix] is OpenAIFile


class TensorFiles:
    """All tensors of a checkpoint folder or single file, by their published names."""

    def __init__(self, folder: Path) -> None:
        self.place: dict[str, TensorFile] = {}  # by their names in the files
        self.paths: list[Path] = []
        self.single = is_single(folder)
        self._open(folder)
        self.names = published_names(self.place)

    def _open(self, folder: Path) -> None:
        if self.single:
            self._add(folder, SINGLE[folder.suffix])
            return
        complete_pending_save(folder)
        for name in WHOLE:
            path, index = folder / name, folder / f"{name}.index.json"
            if path.is_file():
                self._add(path)
                return
            if index.is_file():
                self._add_shards(index)
                return
        looked = ", ".join(f"{name} or its shards" for name in WHOLE)
        raise LoadError(f"{folder} has no weights: it holds neither {looked}.")

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def shape(self, name: str) -> tuple[int, ...]:
        held = self.names[name][-1]
        return self.place[held].shapes[held]

    def dtype(self, name: str) -> torch.dtype:
        held = self.names[name][-1]
        return self.place[held].dtype(held)

    def read(self, name: str, mapped: bool) -> Tensor:
        """Reads a tensor by its published name.

        Tensors keep their stored dtype, except that 8-bit floats become float32, because they
        cannot be computed with.

        Args:
            name: The published name.
            mapped: Leaves the data memory-mapped until it is used; otherwise the tensor is a copy.
        """
        parts = [self.place[held].read(held, mapped) for held in self.names[name]]
        tensor = whole_weight(*parts) if len(parts) > 1 else parts[0]
        return tensor.float() if is_float8(tensor.dtype) else tensor

    def inside(self, prefix: str) -> TensorFiles:
        """Returns a view of the same files in which `prefix` is removed from the names."""
        other = copy(self)
        other.names = inside(prefix, self.names)
        return other

    @property
    def renamed(self) -> dict[str, str]:
        """Name in the file -> published name, for the tensors where they differ."""
        return {held: name for name, parts in self.names.items() for held in parts if held != name}

    @property
    def others(self) -> list[str]:
        """Entries of the files that are not tensors."""
        return [name for file in dict.fromkeys(self.place.values()) for name in file.others]

    def _add(self, path: Path, reader: Callable[[Path], TensorFile] | None = None) -> TensorFile:
        if path.stat().st_size == 0:
            raise LoadError(f"{path} is empty; get it again.")
        file = (reader or READERS.get(path.suffix, PickleFile))(path)
        self.place.update(dict.fromkeys(file.shapes, file))
        self.paths.append(path)
        return file

    def _add_shards(self, index: Path) -> None:
        try:
            where: dict[str, str] = json.loads(index.read_text("utf-8"))["weight_map"]
            shards = sorted(set(where.values()), key=str)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LoadError(f"{index} is not an index of shards; get it again.") from None
        for shard in shards:
            path = named_in(index.parent, shard, index)
            named = {name for name, place in where.items() if place == shard}
            if not path.is_file():
                raise LoadError(
                    f"{index} names {shard}, which is not there; get it too.", missing=sorted(named)
                )
            found = set(self._add(path).shapes)
            if found != named:
                odd = sorted(found ^ named)[0]
                raise LoadError(
                    f"{index} and {shard} do not agree on the tensor {odd}.",
                    missing=sorted(named - found),
                    unexpected=sorted(found - named),
                )
