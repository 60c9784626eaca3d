"""Padding of arrays of different lengths to one tensor, for `collate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.train.objectives.rows import Example, RaggedColumn, column_of


def pad_rows(
    arrays: Sequence[NDArray[Any]],
    fill: float = 0,
    dtype: torch.dtype = torch.long,
    *,
    side: str = "right",
    length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Pads arrays to a tensor with one row per array.

    Args:
        arrays: One-dimensional arrays.
        fill: Padding value.
        dtype: dtype of the tensor.
        side: Side of the padding, "right" or "left".
        length: Row length; by default that of the longest array.

    Returns:
        The tensor, [row, slot], and a mask of the same shape that is True at values of the arrays.

    >>> pad_rows([np.array([5, 6, 7]), np.array([8])], fill=0)[0]
    tensor([[5, 6, 7],
            [8, 0, 0]])
    """
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    values = np.concatenate(arrays) if len(arrays) else np.zeros(0, np.int64)
    return pad_column(RaggedColumn(values, lengths), fill, dtype, side=side, length=length)


def pad_column(
    values: RaggedColumn,
    fill: float = 0,
    dtype: torch.dtype = torch.long,
    *,
    side: str = "right",
    length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Pads the rows of a column as `pad_rows` does its arrays."""
    lengths = values.lengths
    longest = int(lengths.max(initial=0))
    slots = longest if length is None else length
    assert longest <= slots, f"{longest} do not fit {slots} slots"
    count = np.arange(slots)[None]
    real = count < lengths[:, None] if side == "right" else count >= slots - lengths[:, None]
    rows = torch.full((len(lengths), slots), fill, dtype=dtype)
    if longest:
        rows.numpy()[real] = values.values  # a fraction of the time that torch takes
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
    """Applies `pad_rows` to one field of the examples."""
    return pad_column(column_of(examples, field), fill, dtype, side=side, length=length)


def column(examples: Sequence[Example], field: str, dtype: torch.dtype = torch.long) -> Tensor:
    """Returns a field with exactly one number per example, such as a label, as [row]."""
    return _tensor(column_of(examples, field).values, dtype)


def _tensor(array: NDArray[Any], dtype: torch.dtype) -> Tensor:
    """Converts an array to a tensor.

    Unsigned integers become signed, because torch supports few operations on them.
    """
    if array.dtype.kind in "ub":
        array = array.astype(np.int64)
    return torch.from_numpy(array).to(dtype)


def runs_of(inputs: Mapping[str, Tensor], per_row: int = 2) -> dict[str, Tensor]:
    """Returns as `cu_seqlens` where texts and padding begin in the flattened batch.

    GPU kernels read it in place of masks. The end of the last run is repeated up to `per_row` runs
    per row, or a multiple, so that there are few different shapes. They describe what the last
    stack reads: the decoder's tokens where an encoder reads others. Parts of a mixture have their
    own, "part/cu_seqlens".
    """
    found: dict[str, Tensor] = {}
    for name, tokens in inputs.items():
        part = name.removesuffix("input_ids").removesuffix("decoder_")
        side = name.removeprefix(part).removesuffix("input_ids")  # "" or "decoder_"
        is_read = bool(side) or f"{part}decoder_input_ids" not in inputs
        if name.endswith("input_ids") and part[-1:] in ("", "/") and is_read:
            mask = inputs.get(f"{part}{side}attention_mask")
            documents = inputs.get(f"{part}document_ids")
            shapes = [x.shape for x in (mask, documents) if x is not None]
            if {*shapes} == {tokens.shape}:
                found[f"{part}cu_seqlens"] = _runs(tokens.shape, mask, documents, per_row)
    return found


def _runs(shape: torch.Size, mask: Tensor | None, documents: Tensor | None, per_row: int) -> Tensor:
    whose = np.zeros(shape, np.int64) if documents is None else documents.numpy()
    if mask is not None:
        whose = np.where(mask.numpy(), whose, -1)
    begins = np.ones(shape, dtype=bool)
    begins[..., 1:] = whose[..., 1:] != whose[..., :-1]
    starts = np.flatnonzero(begins)
    spare = 1 + -len(starts) % (per_row * shape[:-1].numel())
    return torch.from_numpy(np.append(starts, np.full(spare, begins.size)).astype(np.int32))
