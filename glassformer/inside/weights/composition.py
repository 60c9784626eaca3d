"""Which heads are made to work on what earlier heads have written, told
by their weights alone (Elhage et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.displayable import Displayable
from glassformer.inside.weights.factors import Factors, every
from glassformer.tasks.model_protocol import TaskModel

KINDS = {"q": "queries", "k": "keys", "v": "values"}
Head = tuple[int, int]  # layer, and its number there


@dataclass(frozen=True)
class Composition(Displayable):
    """`scores` are [from, to]: |M C| / (|M| |C|), where C is what the earlier head carries (its OV)
    and M what the later one does with it, by its queries, keys or values; 0 where it is not
    later. Matrices at random would have about 1 over the root of the width."""

    kind: str
    heads: tuple[Head, ...]
    scores: NamedTensor

    def __getitem__(self, pair: tuple[Head, Head]) -> float:
        """Of a pair of heads, each (layer, head)."""
        for one in pair:
            if one not in self.heads:
                raise GlassformerError(f"There is no head {one}: a head is (layer, head).")
        return float(self.scores.array[self.heads.index(pair[0]), self.heads.index(pair[1])])

    def top(self, count: int = 10) -> list[tuple[Head, Head, float]]:
        """The pairs that compose most."""
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
    """Of all heads of a stack with all later ones: by queries (`q`), keys (`k`) or values (`v`).

    >>> inside.composition(model, "k").top(3)
    """
    if kind not in KINDS:
        raise GlassformerError(f"Heads compose by {', '.join(KINDS)}, not {kind!r}.")
    layers = list(every(model, stack))
    if not layers:
        raise GlassformerError("This stack has no heads of attention.")
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
    """What a later head does with what it reads, as [head, rank, width] of the same size."""
    by, beside = {"q": (own.q, own.k), "k": (own.k, own.q), "v": (own.v, own.o.mT)}[kind]
    return small(beside, by.mT).mT


def small(inner: Tensor, outer: Tensor) -> Tensor:
    """outer @ inner, [head, width, dim] and [head, dim, width], as a matrix of [head, width, dim]
    whose products are of the same size: what a rotation does to the other side changes none."""
    triangle: Tensor = torch.linalg.qr(inner.mT).R
    return outer @ triangle.mT


def norms(carried: Tensor, used: Tensor) -> Tensor:
    """[earlier head, later head], the size of each product over the sizes of its factors."""
    both = torch.einsum("jrw,iws->ijrs", used, carried)
    size = torch.linalg.matrix_norm
    ratio: Tensor = size(both) / (size(carried)[:, None] * size(used)).clamp(min=1e-30)
    return ratio
