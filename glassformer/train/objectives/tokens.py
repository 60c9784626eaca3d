"""Train room, objectives: what those over running text share. Texts become token ids, rows of
different length a batch, and logits a sum of losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.model import Model
from glassformer.text import Tokenizer
from glassformer.train.objectives.objective import Record

Ids = NDArray[np.int64]
IGNORED = -100  # a target that is not asked for


def tokenizer_of(model: Model) -> Tokenizer:
    """The model's tokenizer, which must fit its embedding."""
    if model.tokenizer is None:
        raise GlassformerError("The model has no tokenizer; name one in the recipe's [tokenizer].")
    stack = model.spec.encoder or model.spec.last_stack
    if model.tokenizer.size > stack.embed.vocabulary:
        raise GlassformerError(
            f"The tokenizer has {model.tokenizer.size} tokens and the model's embedding "
            f"{stack.embed.vocabulary}; make the model with as many, or choose another tokenizer."
        )
    return model.tokenizer


def column(record: Record, name: str) -> Any:
    if name not in record:
        raise GlassformerError(
            f"{record.get('where', 'A record')} has no column {name!r}, only "
            f"{', '.join(sorted(set(record) - {'where'})) or 'none'}; say in [data.columns] which "
            "one it is."
        )
    return record[name]


def padded(rows: Sequence[NDArray[Any]], value: int = 0, side: str = "right") -> Tensor:
    """Rows of different length, one below the other: [row, longest]."""
    longest = max(map(len, rows))
    grid = np.full((len(rows), longest), value, dtype=np.int64)
    for line, row in zip(grid, rows, strict=True):
        line[slice(len(row)) if side == "right" else slice(longest - len(row), None)] = row
    return torch.from_numpy(grid)


def real(rows: Sequence[NDArray[Any]], side: str = "right") -> Tensor | None:
    """True at what is no padding; None where nothing is."""
    if len({len(row) for row in rows}) == 1:
        return None
    return padded([np.ones(len(row)) for row in rows], side=side).bool()


def token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The cross-entropy, summed over the targets that are asked for."""
    return F.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), ignore_index=IGNORED, reduction="sum"
    )
