"""PyTorch's pickled files, read by the restricted unpickler, which builds only tensors."""

from __future__ import annotations

import mmap
import pickle
import re
import warnings
from pathlib import Path
from typing import IO, Any, cast

import torch
from torch import Tensor

from glassformer.errors import LoadError
from glassformer.storage.parsing import parsing
from glassformer.weights.formats.tensor_file import TensorFile

HOLDERS = ("state_dict", "model_state_dict", "model", "module")  # keys of training checkpoints


class PickleFile(TensorFile):
    """A pickle, read with `weights_only`: only tensors, storages and dictionaries are unpickled."""

    def __init__(self, path: Path) -> None:
        state = _unwrapped(unpickle(path), path)
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


def unpickle(path: Path) -> Any:
    """Returns the contents of a file of `torch.save`.

    It is not memory-mapped by PyTorch, which then checks neither sizes nor checksums of tensors.
    The mapping here ends a pickle that announces more bytes than there are.
    """
    with (
        path.open("rb") as file,
        parsing(path, "a whole PyTorch file"),
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # of the protocol of the pickle
        try:
            return torch.load(cast(IO[bytes], content), map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            asked = re.search(r"GLOBAL ([\w.]+)", str(error))
            raise LoadError(
                f"{path} holds something else than tensors"
                f"{f' (it asks for {asked[1]})' if asked else ''} and was not read: a pickle can "
                "run code; ask its maker for safetensors."
            ) from None


def _unwrapped(state: Any, path: Path) -> dict[Any, Any]:
    """Finds the model's tensors in a training checkpoint, which also holds the optimizer's.

    They are under a usual key, or else in the only table of tensors.
    """
    if not isinstance(state, dict):
        return {}
    inner = next((state[key] for key in HOLDERS if isinstance(state.get(key), dict)), None)
    if inner is not None:
        return _unwrapped(inner, path)
    tables = {str(key): value for key, value in state.items() if _is_table(value)}
    if not tables or _is_table(state):
        return state
    if len(tables) > 1:
        raise LoadError(
            f"{path} holds several tables of tensors ({', '.join(tables)}); save the one that is "
            "the model in a file of its own."
        )
    return next(iter(tables.values()))


def _is_table(value: Any) -> bool:
    """Whether a value is a table with tensors by their names."""
    return isinstance(value, dict) and any(
        isinstance(name, str) and isinstance(one, Tensor) for name, one in value.items()
    )
