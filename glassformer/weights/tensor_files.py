"""Lazy access by name to the tensors of a checkpoint, a folder or a single file.

`formats/` reads the files: safetensors, single or sharded; a legacy pytorch_model.bin, which is a
pickle; the consolidated files of Meta and Mistral; and a GGUF file, a llama2.c .bin file,
OpenAI's .pt file or CTranslate2's model.bin of Whisper, each of which contains a whole checkpoint,
including its config.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from pathlib import Path

import torch
from torch import Tensor

from glassformer.errors import LoadError
from glassformer.storage.folders import complete_pending_save
from glassformer.storage.names import named_in
from glassformer.storage.parsing import parse_json
from glassformer.weights.dtypes import is_float8
from glassformer.weights.formats.consolidated import ConsolidatedFiles, has_published_names
from glassformer.weights.formats.ctranslate2 import CTranslate2File, is_ctranslate2
from glassformer.weights.formats.gguf import GgufFile
from glassformer.weights.formats.llama2c import Llama2cFile
from glassformer.weights.formats.openai_whisper import OpenAIFile
from glassformer.weights.formats.pickle import PickleFile
from glassformer.weights.formats.safetensors import SafetensorsFile
from glassformer.weights.formats.tensor_file import SingleFile, TensorFile
from glassformer.weights.hub_cache import download_hint
from glassformer.weights.tensor_names import inside, published_names, whole_weight
from glassformer.weights.weight_files import is_index, is_original, weights_among


def open_bin(path: Path) -> SingleFile:
    """Opens a .bin file of a whole model: CTranslate2's, or else llama2.c's."""
    return CTranslate2File(path) if is_ctranslate2(path) else Llama2cFile(path)


SINGLE: dict[str, Callable[[Path], SingleFile]] = {
    ".gguf": GgufFile,
    ".bin": open_bin,
    ".pt": OpenAIFile,
}


def is_single(path: Path) -> bool:
    """Whether the path is a checkpoint in a single file rather than a folder."""
    return path.suffix in SINGLE and path.is_file()


def is_weights(path: Path) -> bool:
    """Whether the path is a file of weights whose config.json is beside it."""
    return (path.suffix == ".safetensors" or is_original([path.name])) and path.is_file()


def folder_beside(path: Path) -> Path:
    """Returns the folder of the config and tokenizer of a checkpoint."""
    return path.parent if is_weights(path) or is_ctranslate2(path) else path


def is_openai(path: Path) -> bool:
    """Whether the path is OpenAI's single-file format of a Whisper model."""
    return is_single(path) and SINGLE[path.suffix] is OpenAIFile


def open_tensors(path: Path) -> TensorFile:
    """Opens one file of tensors, safetensors or a pickle."""
    if not path.is_file():
        raise LoadError(f"There is no file {path}; get it.{download_hint(path.parent)}")
    if path.stat().st_size == 0:
        raise LoadError(f"{path} is empty; get it again.")
    return SafetensorsFile(path) if path.suffix == ".safetensors" else PickleFile(path)


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
            if folder.stat().st_size == 0:
                raise LoadError(f"{folder} is empty; get it again.")
            self._add(SINGLE[folder.suffix](folder), folder)
            return
        if is_weights(folder):
            self._add_named(folder.parent, [folder.name])
            return
        complete_pending_save(folder)
        try:
            names = weights_among([path.name for path in folder.iterdir()], folder)
        except LoadError as error:
            raise LoadError(f"{error}{download_hint(folder)}") from None
        self._add_named(folder, names)

    def _add_named(self, folder: Path, names: Sequence[str]) -> None:
        """Adds the files of `weights_among`."""
        if is_original(names) and not (len(names) == 1 and has_published_names(folder / names[0])):
            file = ConsolidatedFiles(folder, names)
            self.place.update(dict.fromkeys(file.shapes, file))
            self.paths += [folder / name for name in names]
        elif is_index(names[0]):
            self._add_shards(folder / names[0])
        else:
            self._add(open_tensors(folder / names[0]), folder / names[0])

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

    def _add(self, file: TensorFile, path: Path) -> None:
        self.place.update(dict.fromkeys(file.shapes, file))
        self.paths.append(path)

    def _add_shards(self, index: Path) -> None:
        try:
            where: dict[str, str] = parse_json(index.read_bytes())["weight_map"]
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
            file = open_tensors(path)
            self._add(file, path)
            found = set(file.shapes)
            if found != named:
                odd = sorted(found ^ named)[0]
                raise LoadError(
                    f"{index} and {shard} do not agree on the tensor {odd}.",
                    missing=sorted(named - found),
                    unexpected=sorted(found - named),
                )
