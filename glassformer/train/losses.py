"""Loss functions: label smoothing entropy and distillation from soft targets."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor


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
