"""Loss functions: adaptive softmax, entropy of label smoothing, distillation from soft targets."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.core.adaptive_softmax import AdaptiveSoftmax


def smoothed_entropy(words: int, smoothing: float) -> float:
    """Returns the entropy of a one-hot target after label smoothing.

    Label smoothing (Szegedy et al., 2015, as in Vaswani et al., 2017) gives 1 - smoothing to the
    right word and spreads the rest evenly over all words. The entropy is the lowest possible
    cross-entropy; the excess over it is the KL divergence.

    Args:
        words: Size of the vocabulary.
        smoothing: Probability that is spread over all words.
    """
    even = smoothing / words
    right = 1 - smoothing + even
    rest = even * math.log(even) * (words - 1) if even else 0.0
    return -right * math.log(right) - rest


def soft_targets(
    student: Tensor, teacher: Tensor, temperature: float = 1.0, kind: str = "kl"
) -> Tensor:
    """Returns the distance of the student's logits from the teacher's (Hinton et al., 2015).

    The result is multiplied by the temperature squared, so that the gradients keep their size
    relative to those of hard targets.

    Args:
        student: Logits, [row, class].
        teacher: Logits, [row, class].
        temperature: Divisor of both logits.
        kind: "kl" for KL(teacher || student); "cross-entropy" adds the teacher's entropy, which has
            no gradient.

    Returns:
        The loss of each row, [row].
    """
    wanted = F.log_softmax(teacher / temperature, -1)
    found = F.log_softmax(student / temperature, -1)
    compared = wanted - found if kind == "kl" else -found
    return (wanted.exp() * compared).sum(-1) * temperature**2


def adaptive_loss(softmax: AdaptiveSoftmax, x: Tensor, targets: Tensor, ignored: int) -> Tensor:
    """Returns the summed cross-entropy of an adaptive softmax.

    A word's loss is computed in its own cluster; the other clusters are not computed for it.

    Args:
        softmax: The adaptive softmax.
        x: Hidden states, [row, width].
        targets: Token ids, [row].
        ignored: Target of rows that have no loss.

    Returns:
        The sum over rows of -log p(target).
    """
    rows = targets.ne(ignored).nonzero()[:, 0]
    x, targets = x[rows], targets[rows]
    first = softmax.inner(x, 0)
    logits = softmax.words(first, 0)
    indices = targets.clone()  # index among the first cluster's words, then the other clusters
    losses = []
    for i, (start, stop) in enumerate(softmax.clusters[1:], start=1):
        rows = ((start <= targets) & (targets < stop)).nonzero()[:, 0]
        indices[rows] = softmax.clusters[0][1] + i - 1
        words = softmax.words(softmax.inner(x[rows], i), i)
        losses.append(_summed_cross_entropy(words, targets[rows] - start))
    if losses:
        logits = torch.cat((logits, softmax.rarer(first)), -1)
    return torch.stack((_summed_cross_entropy(logits, indices), *losses)).sum()


def _summed_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits, targets, reduction="sum")
