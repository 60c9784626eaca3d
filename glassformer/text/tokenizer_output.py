"""The output of calling a tokenizer: model inputs by the names that PyTorch users know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.text.encoding import TextEncoding


class TokenizerOutput(dict[str, Any]):
    """Model inputs: `input_ids`, `attention_mask` and, where the model has them, `token_type_ids`.

    The values are lists, or tensors of [batch, position] with `return_tensors="pt"`. They are
    accessible as items and as attributes, so that `model(**output)` and `output.input_ids` work.
    """

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"The tokenizer's output has no {name}; it has {', '.join(self)}.")
        return self[name]

    def to(self, device: str | torch.device) -> TokenizerOutput:
        """Returns the output with its tensors on a device."""
        moved = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in self.items()}
        return TokenizerOutput(moved)


def pad_encodings(
    encodings: Sequence[TextEncoding],
    *,
    width: int | None,
    side: str,
    pad_id: int,
    pad_segment: int | None,
) -> dict[str, list[list[int]]]:
    """Returns the inputs of a batch as lists.

    Args:
        encodings: One encoding per row.
        width: The length to pad the rows to; None pads nothing.
        side: The side to pad: "left" or "right".
        pad_id: The id of the padding token.
        pad_segment: The segment id of padding; None if the model has no segments.
    """

    def padded(row: list[int], fill: int) -> list[int]:
        missing = [fill] * (0 if width is None else max(0, width - len(row)))
        return row + missing if side == "right" else missing + row

    columns = {"input_ids": [padded(one.ids, pad_id) for one in encodings]}
    if pad_segment is not None:
        columns["token_type_ids"] = [padded(one.segments, pad_segment) for one in encodings]
    columns["attention_mask"] = [padded([1] * len(one.ids), 0) for one in encodings]
    return columns


def as_tensors(columns: dict[str, list[list[int]]]) -> dict[str, Tensor]:
    """Converts rows of one length to tensors of [batch, position]."""
    lengths = {len(row) for row in columns["input_ids"]}
    if len(lengths) > 1:
        raise InputError(
            f"The texts have {min(lengths)} to {max(lengths)} tokens, and a tensor needs rows of "
            "one length; pass padding=True."
        )
    return {name: torch.tensor(rows, dtype=torch.long) for name, rows in columns.items()}
