"""Versions of tensors and of whole models, to detect that something derived from them is stale.

A version holds checksums of all values. PyTorch's counter of changes would not suffice: fused
optimizers, `p.data.mul_()` and writes through numpy do not raise it. A checksum reads the weights
once. Therefore what is derived from weights is checked once per call (a generation, a batch of
texts), and is not kept between calls where a check costs more than it saves.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from glassformer.native.checksum import checksums

SIMPLE = (float, int, str)
Item = TypeVar("Item")

_known: ContextVar[dict[Any, int] | None] = ContextVar("known", default=None)


@contextmanager
def one_call(known: dict[Any, int] | None = None) -> Iterator[dict[Any, int]]:
    """Computes the checksum of a weight only once inside the block.

    The weights must not change inside the outermost block.

    Args:
        known: The checksums of an earlier block of the same call.

    Returns:
        A context manager that gives the checksums.
    """
    outer = _known.get()
    if outer is not None:
        yield outer
        return
    token = _known.set({} if known is None else known)
    try:
        known = _known.get()
        assert known is not None
        yield known
    finally:
        _known.reset(token)


def in_one_call(steps: Generator[Item, None, None]) -> Iterator[Item]:
    """Takes all steps of a generator as one call (see `one_call`)."""
    known: dict[Any, int] = {}
    with closing(steps):
        while True:
            with one_call(known):
                try:
                    item = next(steps)
                except StopIteration:
                    return
            yield item


class TensorState(NamedTuple):
    """The type, the layout and the values of a tensor; `order` is its axes by their strides."""

    dtype: torch.dtype
    shape: torch.Size
    device: torch.device
    order: tuple[int, ...]
    checksum: int


class TensorVersion:
    """The values of tensors, to detect whether they have changed since."""

    def __init__(self, *tensors: Tensor) -> None:
        orders = [_order(tensor) for tensor in tensors]
        sums = _checksums(tensors, orders)
        self.states = [
            TensorState(tensor.dtype, tensor.shape, tensor.device, order, checksum)
            for tensor, order, checksum in zip(tensors, orders, sums, strict=True)
        ]

    def matches(self, *tensors: Tensor) -> bool:
        """Whether these tensors have the same values, wherever and however they are stored."""
        return (
            len(tensors) == len(self.states)
            and all(
                (tensor.dtype, tensor.shape, tensor.device) == state[:3]
                for tensor, state in zip(tensors, self.states, strict=True)
            )
            and _checksums(tensors, [state.order for state in self.states])
            == [state.checksum for state in self.states]
        )


class ModelVersion:
    """State of a model, to detect when it has changed."""

    def __init__(self, model: nn.Module) -> None:
        tensors, self.settings = walk_tensors(model)
        self.tensors = TensorVersion(*tensors)

    def same_as(self, other: ModelVersion) -> bool:
        """Whether both are versions of a model that computes the same."""
        return self.settings == other.settings and self.tensors.states == other.tensors.states

    def matches(self, model: nn.Module) -> bool:
        """Whether the model computes the same as when this version was created."""
        tensors, settings = walk_tensors(model)
        return self.settings == settings and self.tensors.matches(*tensors)


def walk_tensors(model: nn.Module) -> tuple[list[Tensor], list[tuple[object, ...]]]:
    """Returns the model's tensors, and for each module its settings and hooks.

    A setting may be an adapter's scale; the ids of hooks are never reused. This runs on every call,
    and `model.modules` would take twice as long.
    """
    tensors: list[Tensor | None] = []
    settings: list[tuple[object, ...]] = []
    waiting: list[nn.Module | None] = [model]
    while waiting:
        module = waiting.pop()
        if module is None:
            continue
        tensors += module._parameters.values()
        tensors += module._buffers.values()
        simple = [value for value in vars(module).values() if isinstance(value, SIMPLE)]
        hooks = *module._forward_hooks, *module._forward_pre_hooks
        settings.append((id(module), *simple, *hooks))
        waiting += module._modules.values()
    return [tensor for tensor in tensors if tensor is not None], settings


def _order(tensor: Tensor) -> tuple[int, ...]:
    """Returns the axes in which a tensor is stored: its values are not copied to be read so."""
    plain = tuple(range(tensor.dim()))
    if tensor.is_contiguous():
        return plain
    strides = tensor.stride()
    order = tuple(sorted(plain, key=lambda axis: -strides[axis]))
    return order if tensor.permute(order).is_contiguous() else plain


def _checksums(tensors: Sequence[Tensor], orders: Sequence[tuple[int, ...]]) -> list[int]:
    known = _known.get()
    known = {} if known is None else known
    keys = [
        (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), order)
        for tensor, order in zip(tensors, orders, strict=True)
    ]
    new = {key: i for i, key in enumerate(keys) if key not in known}
    with torch.no_grad():
        plain = [tensors[i].permute(orders[i]).contiguous() for i in new.values()]
    known |= zip(new, checksums(plain), strict=True)
    return [known[key] for key in keys]
