"""Composition scores between attention heads, from weights only (Elhage et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.displayable import Displayable
from glassformer.inside.weights.factors import Factors, all_factors
from glassformer.tasks.model_protocol import TaskModel

KINDS = {"q": "queries", "k": "keys", "v": "values"}
Head = tuple[int, int]  # layer, head


@dataclass(frozen=True)
class Composition(Displayable):
    """The composition scores of all pairs of heads.

    The score is |M C| / (|M| |C|), where C is the OV matrix of the earlier head and M the matrix by
    which the later head uses it, through its queries, keys or values. Random matrices have a score
    of about 1 / sqrt(width).

    Attributes:
        kind: "q", "k" or "v".
        heads: The heads as (layer, head).
        scores: [from, to]; 0 if the second head is not in a later layer.
    """

    kind: str
    heads: tuple[Head, ...]
    scores: NamedTensor

    def __getitem__(self, pair: tuple[Head, Head]) -> float:
        """Returns the score of a pair of heads, each given as (layer, head)."""
        for one in pair:
            if one not in self.heads:
                raise ConfigError(f"There is no head {one}; a head is given as (layer, head).")
        return float(self.scores.array[self.heads.index(pair[0]), self.heads.index(pair[1])])

    def top(self, count: int = 10) -> list[tuple[Head, Head, float]]:
        """Returns the pairs with the highest scores, as (earlier head, later head, score)."""
        table = self.scores.array.flatten()
        values, places = table.topk(min(count, len(table)))
        size = len(self.heads)
        return [
            (self.heads[place // size], self.heads[place % size], value)
            for place, value in zip(places.tolist(), values.tolist(), strict=True)
            if value > 0
        ]

    def __repr__(self) -> str:
        return f"<composition of {len(self.heads)} heads by {KINDS[self.kind]}>"

    def _repr_html_(self) -> str:
        from glassformer.inside.show.circuits import composition_html

        return composition_html(self)

    @property
    def heading(self) -> str:
        return f"Composition of heads by {KINDS[self.kind]}"


@torch.no_grad()
def composition(model: TaskModel, kind: str = "k", stack: str = "") -> Composition:
    """Computes the composition scores of all heads of a stack with all later ones.

    Args:
        model: The model.
        kind: Composition by queries ("q"), keys ("k") or values ("v").
        stack: "encoder" or "decoder", by default the last stack.

    Returns:
        The scores.

    >>> inside.composition(model, "k").top(3)
    """
    if kind not in KINDS:
        raise ConfigError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}.")
    layers = list(all_factors(model, stack))
    if not layers:
        raise UnsupportedError("This stack has no attention heads.")
    heads = tuple((one.layer, head) for one in layers for head in range(len(one.q)))
    scores = torch.zeros(len(heads), len(heads), device=layers[0].q.device)
    carried = [small(one.v, one.o) for one in layers]  # [head, width, rank]
    used = [_used(one, kind) for one in layers]  # [head, rank, width]
    starts = [0, *torch.tensor([len(one.q) for one in layers]).cumsum(0).tolist()]
    for later in range(len(layers)):
        for earlier in range(later):
            table = norms(carried[earlier], used[later])
            rows, columns = (slice(starts[i], starts[i + 1]) for i in (earlier, later))
            scores[rows, columns] = table
    names = [f"{layer}.{head}" for layer, head in heads]
    labels = {"from": names, "to": names}
    return Composition(
        kind, heads, NamedTensor(scores, ("from", "to"), labels, f"composition by {kind}")
    )


def _used(own: Factors, kind: str) -> Tensor:
    """The matrix by which a later head uses its input, reduced to [head, rank, width]."""
    by, other = {"q": (own.q, own.k), "k": (own.k, own.q), "v": (own.v, own.o.mT)}[kind]
    return small(other, by.mT).mT


def small(inner: Tensor, outer: Tensor) -> Tensor:
    """Reduces outer @ inner, [head, width, dim] and [head, dim, width], to [head, width, dim].

    Products with the result from the left have the same norm, because an orthogonal factor on the
    other side does not change it.
    """
    triangle: Tensor = torch.linalg.qr(inner.mT).R
    return outer @ triangle.mT


def norms(carried: Tensor, used: Tensor) -> Tensor:
    """[earlier head, later head]: the norm of each product divided by the norms of its factors."""
    both = torch.einsum("jrw,iws->ijrs", used, carried)
    size = torch.linalg.matrix_norm
    ratio: Tensor = size(both) / (size(carried)[:, None] * size(used)).clamp(min=1e-30)
    return ratio
