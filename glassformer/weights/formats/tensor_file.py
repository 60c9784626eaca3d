"""The interface of one file of tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor


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


class SingleFile(TensorFile):
    """A checkpoint in a single file.

    `config` is the equivalent of config.json; tensors have their published names and layouts.
    """

    config: dict[str, Any]
