"""Data structures and arithmetic for explaining one number by its terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.norm import LayerNorm, RMSNorm

if TYPE_CHECKING:
    from glassformer.inside.capture.view import View

REST = "rest"


@dataclass(frozen=True)
class Term:
    """One term: a product of two numbers, or a single summand."""

    label: str
    a: float
    b: float | None = None
    product: float | None = None


@dataclass(frozen=True)
class Cell:
    """One number and how it was computed.

    `how` is one of lookup, sum, dot and weighted (sum of a * b, with the bias in `parts`), norm ((a
    - mean) / deviation * gain + bias, applied to the sum of the terms), rotate, scale, cap, mask,
    softmax (exp(a - largest) / total), join, activation, product. The largest terms come first; the
    remaining ones are combined into one.
    """

    value: float
    how: str
    terms: tuple[Term, ...] = ()
    parts: dict[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class CellContext:
    """One number of a tensor, with methods that explain it by its `limit` largest terms."""

    view: View
    name: str
    row: int
    col: int
    head: int
    limit: int
    value: float

    def dot(
        self,
        a: Tensor,
        b: Tensor,
        label: str | Callable[[int], str],
        *,
        how: str = "dot",
        cap: float | None = None,
    ) -> Cell:
        """Explains the number as a dot product of `a` and `b`.

        The remainder beside the products is the bias and what an adapter adds; there is no bias
        if the remainder is within rounding.
        """
        eps = torch.finfo(a.dtype).eps
        a, b = a.double(), b.double()
        products = a * b
        named = label if callable(label) else lambda place: f"{label} {place}"
        order = products.abs().argsort(descending=True)
        first, others = order[: self.limit].tolist(), order[self.limit :]
        terms = [Term(named(i), float(a[i]), float(b[i]), float(products[i])) for i in first]
        if len(others):
            rest = float(products[others].sum())
            terms.append(Term(REST, rest, None, rest))
        total = float(products.sum())
        parts: dict[str, float | str] = {"sum": total}
        if cap is not None:
            parts["cap"] = cap
        elif how == "dot":
            rest = self.value - total
            if abs(rest) > 8 * eps * float(products.abs().sum()):  # more than rounding
                parts["bias"] = rest
        return Cell(self.value, how, tuple(terms), parts)

    def exponents(self, scores: Tensor, label: Callable[[int], str]) -> Cell:
        """Explains the number as a softmax probability.

        The first term is its own score; the largest others follow.
        """
        most, probabilities = float(scores.max()), scores.double().softmax(-1)
        order = [
            self.col,
            *(i for i in probabilities.argsort(descending=True).tolist() if i != self.col),
        ]
        terms = [
            Term(label(i), float(scores[i]), None, float(probabilities[i]))
            for i in order[: self.limit]
        ]
        if len(order) > self.limit:
            rest = float(probabilities[order[self.limit :]].sum())
            terms.append(Term(REST, rest, None, rest))
        total = float((scores.double() - most).exp().sum())
        return Cell(self.value, "softmax", tuple(terms), {"largest": most, "total": total})

    def normed(self, module: nn.Module, x: Tensor, terms: tuple[Term, ...]) -> Cell:
        parts: dict[str, float | str] = {"norm": type(module).__name__}
        if isinstance(module, LayerNorm | RMSNorm):
            x = x.double()
            mean = float(x.mean()) if isinstance(module, LayerNorm) else 0.0
            size = float(((x - mean).square().mean() + module.eps).sqrt())
            gain = float(module.weight[self.col]) + float(getattr(module, "unit_offset", False))
            parts |= {"mean": mean, "deviation": size, "gain": gain}
            if (bias := getattr(module, "bias", None)) is not None:
                parts["bias"] = float(bias[self.col])
        return Cell(self.value, "norm", terms, parts)

    def largest(self, labels: Sequence[str], numbers: Sequence[float]) -> tuple[Term, ...]:
        order = sorted(range(len(numbers)), key=lambda i: -abs(numbers[i]))
        terms = [Term(labels[i], numbers[i]) for i in order[: self.limit]]
        rest = order[self.limit :]
        if rest:
            terms.append(Term(REST, sum(numbers[i] for i in rest)))
        return tuple(terms)
