"""Arrays of different lengths become one tensor, for `collate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.train.objectives.objective import Example


def even(length: int, most: int | None = None) -> int:
    """The same or up to a quarter more, and `most` at most: so that there are few lengths.

    >>> [even(length) for length in (3, 41, 64, 65, 130)]
    [8, 48, 64, 80, 160]
    """
    step = max(8, 1 << max(0, (length - 1).bit_length() - 3))
    rounded = -(-length // step) * step
    return max(length, rounded if most is None else min(rounded, most))


def pad_rows(
    arrays: Sequence[NDArray[Any]],
    fill: float = 0,
    dtype: torch.dtype = torch.long,
    *,
    side: str = "right",
    length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """One row an array, as long as the longest or as `length`: [row, slot], and a mask of the same
    shape that is True where the array had something. `side` is where the filling goes.

    >>> pad_rows([np.array([5, 6, 7]), np.array([8])], fill=0)[0]
    tensor([[5, 6, 7],
            [8, 0, 0]])
    """
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    longest = int(lengths.max(initial=0))
    slots = longest if length is None else length
    assert longest <= slots, f"{longest} do not fit {slots} slots"
    count = np.arange(slots)[None]
    real = count < lengths[:, None] if side == "right" else count >= slots - lengths[:, None]
    rows = torch.full((len(arrays), slots), fill, dtype=dtype)
    if longest:
        rows.numpy()[real] = np.concatenate(arrays)  # a fraction of the time that torch takes
    return rows, torch.from_numpy(real)


def pad(
    examples: Sequence[Example],
    field: str,
    fill: float = 0,
    dtype: torch.dtype = torch.long,
    *,
    side: str = "right",
    length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """`pad_rows` of one field of the examples."""
    return pad_rows([example[field] for example in examples], fill, dtype, side=side, length=length)


def column(examples: Sequence[Example], field: str, dtype: torch.dtype = torch.long) -> Tensor:
    """[row]: a field that has exactly one number an example, as a label."""
    return _tensor(np.concatenate([example[field] for example in examples]), dtype)


def _tensor(array: NDArray[Any], dtype: torch.dtype) -> Tensor:
    """torch computes little with unsigned integers, so those come as signed ones."""
    if array.dtype.kind in "ub":
        array = array.astype(np.int64)
    return torch.from_numpy(array).to(dtype)


def runs_of(inputs: Mapping[str, Tensor], even: int = 64) -> dict[str, Tensor]:
    """Where texts and padding begin, counted through the whole batch, as `runs`: what a GPU's
    kernel reads in place of masks. The last run's end is repeated, up to what rows of a text
    and its padding may have, or of more up to an even number: so there are few different shapes.
    Parts of a mixture have their own, "part/runs"."""
    found: dict[str, Tensor] = {}
    for name, tokens in inputs.items():
        part = name.removesuffix("tokens")
        if name != part and part[-1:] in ("", "/"):
            mask, documents = (inputs.get(f"{part}{field}") for field in ("mask", "documents"))
            said = [x.shape for x in (mask, documents) if x is not None]
            if {*said} == {tokens.shape}:
                found[f"{part}runs"] = _runs(tokens.shape, mask, documents, even)
    return found


def _runs(shape: torch.Size, mask: Tensor | None, documents: Tensor | None, even: int) -> Tensor:
    whose = torch.zeros(shape, dtype=torch.long) if documents is None else documents
    if mask is not None:
        whose = whose.masked_fill(~mask, -1)
    begins = torch.ones(shape, dtype=torch.bool)
    begins[..., 1:] = whose[..., 1:] != whose[..., :-1]
    starts = begins.flatten().nonzero()[:, 0]
    usual = 2 * shape[:-1].numel() - len(starts)
    total = starts.new_full(
        (1 + (usual if usual >= 0 else (-len(starts) - 1) % even),), begins.numel()
    )
    return torch.cat((starts, total)).int()
