"""Training steps in torch for a batch of windows or pairs.

All of a batch sees the tables as they were before the step. The compiled kernel does the same with
batches of one window or pair; this module is used on a GPU, for the full softmax, and without a
compiler.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tables:
    """Input and output vectors of word2vec."""

    inputs: Tensor  # [word, width]
    outputs: Tensor  # [word, width]


def gathered(table: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Returns rows of [..., width], and a mask of the real ones; the row of id -1 is zero."""
    real = (ids >= 0).to(table.dtype)[..., None]
    return table[ids.clamp(min=0)] * real, real


def add_rows(table: Tensor, ids: Tensor, change: Tensor) -> None:
    table.index_add_(0, ids.clamp(min=0).flatten(), change.flatten(0, -2))


def negative_sampling(
    tables: Tables, center: Tensor, context: Tensor, negative: Tensor, rate: float, mean: bool
) -> None:
    """Every context word (for CBOW, their mean) predicts the center and none of the negative words.

    Maximizes log s(x.y) + sum of log s(-x.y'), with the negative words shared by the whole window.
    As in word2vec, the update of the mean is added to each of its words in full.
    """
    x, real = gathered(tables.inputs, context)  # [batch, context, width]
    shown = torch.cat((center[:, None], negative), 1)
    y, valid = gathered(tables.outputs, shown)  # [batch, shown, width]
    if mean:
        x = x.sum(1, keepdim=True) / real.sum(1, keepdim=True)
    pull = -torch.sigmoid(x @ y.mT)  # [batch, input, shown]
    pull[..., 0] += 1
    pull = pull * rate * valid.mT
    if not mean:
        pull = pull * real
    change = pull @ y
    add_rows(tables.outputs, shown, pull.mT @ x)
    add_rows(tables.inputs, context, change * real)


def full_softmax(tables: Tables, center: Tensor, context: Tensor, rate: float, mean: bool) -> None:
    """Skip-gram: the center predicts every context word, with one softmax for all of them.

    CBOW: the mean of the context predicts the center.
    """
    rows, real = gathered(tables.inputs, context)
    if mean:
        x, times = rows.sum(1) / real.sum(1), torch.ones_like(real[:, 0])
        wanted, each = center[:, None], torch.ones_like(real[:, :1, 0])
    else:
        x, times = tables.inputs[center], real.sum(1)
        wanted, each = context.clamp(min=0), real[..., 0]
    pull = (x @ tables.outputs.mT).softmax(-1) * -times  # [batch, word]
    pull.scatter_add_(1, wanted, each)
    pull *= rate
    change = pull @ tables.outputs
    tables.outputs.addmm_(pull.mT, x)
    if mean:
        add_rows(tables.inputs, context, change[:, None] * real)
    else:
        add_rows(tables.inputs, center, change)


@dataclass(frozen=True)
class GloVeSide:
    """One of GloVe's two tables, words or contexts, with AdaGrad's sums of squares."""

    table: Tensor  # [word, width]
    squares: Tensor
    bias: Tensor  # [word, 2]: value and sum of squares


def regression(
    sides: tuple[GloVeSide, GloVeSide],
    ids: tuple[Tensor, Tensor],
    wanted: Tensor,
    weight: Tensor,
    rate: float,
) -> None:
    """GloVe step: minimizes weight (a.b + bias + bias' - log count)^2 / 2 by AdaGrad.

    As in the authors' program, the gradient is multiplied by the learning rate before it is
    squared, and the sums of squares start at 1.
    """
    a, b = (side.table[rows] for side, rows in zip(sides, ids, strict=True))  # [pair, width]
    bias = sides[0].bias[ids[0], 0] + sides[1].bias[ids[1], 0]
    pull = rate * weight * ((a * b).sum(-1) + bias - wanted)  # [pair]
    for side, rows, other in zip(sides, ids, (b, a), strict=True):
        gradient = pull[:, None] * other
        side.table.index_add_(0, rows, -gradient / side.squares[rows].sqrt())
        side.squares.index_add_(0, rows, gradient**2)
        step = torch.stack((-pull / side.bias[rows, 1].sqrt(), pull**2), -1)
        side.bias.index_add_(0, rows, step)
