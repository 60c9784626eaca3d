"""Cross-entropy of an adaptive softmax.

A word's loss is computed in its own cluster; the other clusters are not computed for it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.core.adaptive_softmax import AdaptiveSoftmax


def adaptive_loss(softmax: AdaptiveSoftmax, x: Tensor, targets: Tensor, ignored: int) -> Tensor:
    """Returns the sum over rows of -log p(target): x is [row, width], targets [row]."""
    asked = targets.ne(ignored).nonzero()[:, 0]
    x, targets = x[asked], targets[asked]
    first = softmax.inner(x, 0)
    likely = softmax.words(first, 0)
    place = targets.clone()  # index among the first cluster's words, then the other clusters
    losses = []
    for i, (start, stop) in enumerate(softmax.clusters[1:], start=1):
        rows = ((start <= targets) & (targets < stop)).nonzero()[:, 0]
        place[rows] = softmax.clusters[0][1] + i - 1
        words = softmax.words(softmax.inner(x[rows], i), i)
        losses.append(_judge(words, targets[rows] - start))
    if losses:
        likely = torch.cat((likely, softmax.rarer(first)), -1)
    return torch.stack((_judge(likely, place), *losses)).sum()


def _judge(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits, targets, reduction="sum")
