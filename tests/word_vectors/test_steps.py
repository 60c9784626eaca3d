"""Every step, compared with autograd of the papers' losses in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from glassformer.word_vectors.steps import (
    GloVeSide,
    Tables,
    full_softmax,
    negative_sampling,
    regression,
)

RATE = 0.3
CENTER = torch.tensor([2, 5, 2])
CONTEXT = torch.tensor([[1, 3, 3, -1], [0, -1, -1, -1], [4, 2, 6, 1]])  # twice the same, itself
NEGATIVE = torch.tensor([[4, 4], [-1, 1], [0, 6]])  # twice the same; one that is left out


@pytest.fixture
def tables():
    draw = torch.Generator().manual_seed(0)
    new = lambda: torch.randn(7, 5, generator=draw, dtype=torch.float64)  # noqa: E731
    return Tables(new(), new())


def descended(tables: Tables, loss) -> tuple[torch.Tensor, torch.Tensor]:
    """The tables a step of plain gradient descent down the loss of all windows."""
    x, y = (table.clone().requires_grad_() for table in (tables.inputs, tables.outputs))
    loss(x, y).backward()
    return x.detach() - RATE * x.grad, y.detach() - RATE * y.grad


def inputs_of(x, context, mean):
    rows = x[context[context >= 0]]
    return rows.mean(0, keepdim=True) if mean else rows


@pytest.mark.parametrize("mean", [False, True])
def test_negative_sampling(tables, mean):
    windows = range(3) if not mean else [0]

    def loss(x, y):
        total = 0.0
        for i in windows:
            for row in inputs_of(x, CONTEXT[i], mean):
                total = total - F.logsigmoid(row @ y[CENTER[i]])
                for drawn in NEGATIVE[i][NEGATIVE[i] >= 0]:
                    total = total - F.logsigmoid(-(row @ y[drawn]))
        return total

    x, y = descended(tables, loss)
    if mean:
        x = tables.inputs + 3 * (x - tables.inputs)
    chosen = list(windows)
    negative_sampling(tables, CENTER[chosen], CONTEXT[chosen], NEGATIVE[chosen], RATE, mean)
    torch.testing.assert_close(tables.inputs, x, atol=1e-12, rtol=0)
    torch.testing.assert_close(tables.outputs, y, atol=1e-12, rtol=0)


@pytest.mark.parametrize("mean", [False, True])
def test_full_softmax(tables, mean):
    windows = range(3) if not mean else [0]

    def loss(x, y):
        total = 0.0
        for i in windows:
            context = CONTEXT[i][CONTEXT[i] >= 0]
            if mean:
                total = total + F.cross_entropy(y @ x[context].mean(0), CENTER[i])
            else:
                for word in context:
                    total = total + F.cross_entropy(y @ x[CENTER[i]], word)
        return total

    x, y = descended(tables, loss)
    if mean:
        x = tables.inputs + 3 * (x - tables.inputs)
    chosen = list(windows)
    full_softmax(tables, CENTER[chosen], CONTEXT[chosen], RATE, mean)
    torch.testing.assert_close(tables.inputs, x, atol=1e-12, rtol=0)
    torch.testing.assert_close(tables.outputs, y, atol=1e-12, rtol=0)


def test_glove_is_adagrad_on_the_weighted_squares():
    """With sums that start at 1 and take in the gradient after the step, times the rate."""
    draw = torch.Generator().manual_seed(1)
    new = lambda *shape: torch.rand(*shape, generator=draw, dtype=torch.float64)  # noqa: E731
    sides = tuple(GloVeSide(new(4, 3) - 0.5, 1 + new(4, 3), 1 + new(4, 2)) for _ in range(2))
    ids = (torch.tensor([0, 2]), torch.tensor([1, 2]))
    wanted, weight = new(2), new(2)
    leaves = [
        leaf.clone().requires_grad_() for side in sides for leaf in (side.table, side.bias[:, 0])
    ]
    a, a_bias, b, b_bias = leaves
    products = (a[ids[0]] * b[ids[1]]).sum(-1) + a_bias[ids[0]] + b_bias[ids[1]]
    (weight * (products - wanted) ** 2 / 2).sum().backward()
    squares = [sides[0].squares, sides[0].bias[:, 1], sides[1].squares, sides[1].bias[:, 1]]
    expected = [
        (leaf.detach() - RATE * leaf.grad / root.sqrt(), root + (RATE * leaf.grad) ** 2)
        for leaf, root in zip(leaves, [one.clone() for one in squares], strict=True)
    ]
    regression(sides, ids, wanted, weight, RATE)
    found = [(side.table, side.squares) for side in sides]
    found = [found[0], sides[0].bias.unbind(1), found[1], sides[1].bias.unbind(1)]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(tuple(ours), theirs, atol=1e-12, rtol=0)
