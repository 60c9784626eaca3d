"""Lists the modules and parameters of a model with their shapes and parameter counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from glassformer.core import Transformer


@dataclass(frozen=True)
class ParameterRow:
    """One module or tensor.

    `count` excludes parameters that an earlier row already counted; `tied_to` names that row.
    """

    name: str
    depth: int
    shape: tuple[int, ...] | None
    count: int
    tied_to: str | None = None
    fixed: bool = False  # a buffer, not a learned parameter


def parts_of(model: Transformer) -> Iterator[ParameterRow]:
    """Yields the module tree in pre-order, parameters as leaves. Equal layers are not folded."""
    owners: dict[int, str] = {}
    yield from _walk(model, "", 0, owners)


def _walk(
    module: nn.Module, path: str, depth: int, owners: dict[int, str]
) -> Iterator[ParameterRow]:
    for name, child in module.named_children():
        full = f"{path}{name}"
        if not any(True for _ in _tensors(child)):
            continue
        own = _new_parameters(child, owners)
        yield ParameterRow(full, depth, None, own)
        yield from _walk(child, f"{full}.", depth + 1, owners)
    for name, tensor in _tensors(module, recurse=False):
        full = f"{path}{name}"
        shape = tuple(tensor.shape)
        if not isinstance(tensor, nn.Parameter):
            yield ParameterRow(full, depth, shape, 0, fixed=True)
        elif id(tensor) in owners:
            yield ParameterRow(full, depth, shape, 0, tied_to=owners[id(tensor)])
        else:
            owners[id(tensor)] = full
            yield ParameterRow(full, depth, shape, tensor.numel())


def _tensors(module: nn.Module, recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(recurse=recurse)
    yield from module.named_buffers(recurse=recurse)


def _new_parameters(module: nn.Module, owners: dict[int, str]) -> int:
    return sum(p.numel() for p in module.parameters() if id(p) not in owners)
