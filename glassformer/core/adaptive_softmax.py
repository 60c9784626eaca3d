"""Adaptive embedding and softmax: a large vocabulary in clusters, narrower for rarer words.

They are written here, because torch's module has no biases in its clusters, and no embedding that
shares their weights.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.linear import EmbeddingTable, Linear
from glassformer.errors import ConfigError
from glassformer.spec import AdaptiveSpec


def clusters(vocabulary: int, spec: AdaptiveSpec) -> list[tuple[int, int]]:
    """Returns the first word of each cluster and the one after its last."""
    if spec.cutoffs and spec.cutoffs[-1] >= vocabulary:
        raise ConfigError(
            f"The last cutoff, {spec.cutoffs[-1]}, is beyond the vocabulary of {vocabulary} words."
        )
    return list(pairwise((0, *spec.cutoffs, vocabulary)))


class AdaptiveLookup(nn.Module):
    """Embedding with a table per cluster and a projection of each to the model's width."""

    def __init__(self, vocabulary: int, width: int, spec: AdaptiveSpec) -> None:
        super().__init__()
        self.clusters = clusters(vocabulary, spec)
        widths = [spec.width // spec.div_value**i for i in range(len(self.clusters))]
        self.tables = nn.ModuleList(
            EmbeddingTable(stop - start, inner)
            for (start, stop), inner in zip(self.clusters, widths, strict=True)
        )
        self.projects = nn.ModuleList(Linear(inner, width, bias=False) for inner in widths)

    def forward(self, ids: Tensor) -> Tensor:
        """Embeds ids by every cluster and selects one, so no shape depends on the words."""
        x: Tensor | None = None
        each = zip(self.clusters, self.tables, self.projects, strict=True)
        for (start, stop), table, project in each:
            found = project(table((ids - start).clamp(0, stop - start - 1)))
            x = found if x is None else torch.where((ids >= start)[..., None], found, x)
        assert x is not None
        return x


class AdaptiveSoftmax(nn.Module):
    """log p(word) = log p(its cluster) + log p(word in the cluster) (Grave et al., 2016).

    The words of the first cluster share a softmax with the other clusters. If words have narrower
    vectors, a cluster's matrix maps from the model's width to theirs, so it can be tied to the
    embedding's.
    """

    def __init__(self, width: int, vocabulary: int, spec: AdaptiveSpec) -> None:
        super().__init__()
        self.clusters = clusters(vocabulary, spec)
        self.one_table = spec.div_value == 1
        widths = [spec.width // spec.div_value**i for i in range(len(self.clusters))]
        heights = [stop - start for start, stop in self.clusters]
        if self.one_table:
            self.tables = nn.ModuleList([Linear(spec.width, vocabulary)])
        else:
            self.tables = nn.ModuleList(map(Linear, widths, heights))
        self.projects = nn.ModuleList()
        if not self.one_table or spec.width != width:
            self.projects.extend(Linear(inner, width, bias=False) for inner in widths)
        if spec.cutoffs:
            self.rarer = Linear(spec.width, len(spec.cutoffs))

    def forward(self, x: Tensor) -> Tensor:
        """Maps [batch, position, width] to log-probabilities of [batch, position, word]."""
        first = self.inner(x, 0)
        likely = self.words(first, 0)
        if len(self.clusters) == 1:
            return likely.log_softmax(-1)
        rarer = self.rarer(first)
        total = torch.logaddexp(likely.logsumexp(-1, True), rarer.logsumexp(-1, True))
        parts = [likely - total]
        for i, chosen in enumerate((rarer - total).split(1, -1), start=1):
            words = self.words(self.inner(x, i), i)
            parts.append(words + (chosen - words.logsumexp(-1, True)))
        return torch.cat(parts, -1)

    def inner(self, x: Tensor, i: int) -> Tensor:
        if not len(self.projects):
            return x
        weight: Tensor = self.projects[i].get_parameter("weight")
        return x @ weight

    def words(self, x: Tensor, i: int) -> Tensor:
        if not self.one_table:
            found: Tensor = self.tables[i](x)
            return found
        own, table = slice(*self.clusters[i]), self.tables[0]
        return F.linear(x, table.get_parameter("weight")[own], table.get_parameter("bias")[own])
