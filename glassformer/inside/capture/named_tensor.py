"""A tensor with named and labeled axes."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.inside.displayable import Displayable

Index = int | slice | EllipsisType


@dataclass(frozen=True, eq=False)
class NamedTensor(Displayable):
    """A tensor with axis names and labels.

    Attributes:
        array: The torch tensor.
        axes: A name for each axis.
        labels: For some axes, a label for each index along it (tokens, layers).
        title: A description of the tensor.

    >>> view.attention[3, 1].axes
    ('query', 'key')
    """

    array: Tensor
    axes: tuple[str, ...]
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    title: str = ""

    def __post_init__(self) -> None:
        assert len(self.axes) == self.array.ndim, (self.axes, self.array.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(self.array.shape)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> NamedTensor:
        """Indexes the tensor with integers and slices; an integer removes its axis."""
        given = [as_index(part) for part in (index if isinstance(index, tuple) else (index,))]
        if Ellipsis in given:
            at = given.index(Ellipsis)
            given[at : at + 1] = [slice(None)] * (len(self.axes) - len(given) + 1)
        if len(given) > len(self.axes):
            raise ConfigError(f"{len(given)} indices for the axes {', '.join(self.axes)}.")
        axes, labels = [], {}
        for number, axis in enumerate(self.axes):
            part = given[number] if number < len(given) else slice(None)
            if isinstance(part, slice):
                axes.append(axis)
                if axis in self.labels:
                    labels[axis] = self.labels[axis][part]
            elif isinstance(part, int):
                check_index(part, self.shape[number], axis)
        return NamedTensor(self.array[tuple(given)], tuple(axes), labels, self.title)

    def mean(self, axis: str) -> NamedTensor:
        """Returns the mean over an axis.

        Args:
            axis: The name of the axis.

        Returns:
            A tensor without this axis.
        """
        if axis not in self.axes:
            raise ConfigError(f"There is no axis {axis!r}, only {', '.join(self.axes)}.")
        rest = tuple(name for name in self.axes if name != axis)
        labels = {name: self.labels[name] for name in rest if name in self.labels}
        mean = self.array.float().mean(self.axes.index(axis))
        return NamedTensor(mean, rest, labels, f"{self.title}, mean over {axis}")

    def numpy(self) -> NDArray[Any]:
        """Returns a NumPy array; bfloat16 becomes float32."""
        array = self.array.detach().cpu()
        return (array.float() if str(array.dtype) == "torch.bfloat16" else array).numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.numpy(), dtype=dtype)

    def tolist(self) -> Any:
        """Returns nested lists of numbers."""
        return self.array.tolist()

    def __float__(self) -> float:
        return float(self.array)

    def __int__(self) -> int:
        return int(self.array)

    def __repr__(self) -> str:
        size = ", ".join(f"{a}={n}" for a, n in zip(self.axes, self.shape, strict=True))
        return f"<{self.title or 'array'} [{size}]>"

    def _repr_html_(self) -> str:
        from glassformer.inside.show.heatmap import html

        return html(self)

    @property
    def heading(self) -> str:
        """The title of pictures of the tensor."""
        return self.title or "array"


def as_index(given: Any) -> Index:
    """Converts an integer (including NumPy's and torch's), a slice or `...` to an index."""
    if isinstance(given, slice) or given is Ellipsis:
        return given
    try:
        return operator.index(given)
    except TypeError:
        raise ConfigError(
            f"An index is an integer or a slice, not {given!r:.40}; use .array, a tensor, for "
            "other indices."
        ) from None


def check_index(index: int, size: int, axis: str) -> None:
    """Raises a `ConfigError` if `index` is out of range for an axis of `size` elements."""
    if not -size <= index < size:
        ends = f"0 to {size - 1}" if size else "none"
        raise ConfigError(f"There is no {axis} {index}: valid indices are {ends}.")
