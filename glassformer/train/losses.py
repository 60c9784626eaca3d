"""Logits and what is wanted become one number."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor


def smoothed_entropy(words: int, smoothing: float) -> float:
    """Of the distribution that label smoothing makes of one right word (Szegedy et al., 2015, as
    in the paper of 2017): 1 - smoothing for it, and the rest evenly over all words. It is the
    least cross-entropy there can be; what is above it is the divergence."""
    even = smoothing / words
    right = 1 - smoothing + even
    rest = even * math.log(even) * (words - 1) if even else 0.0
    return -right * math.log(right) - rest


def soft_targets(
    student: Tensor, teacher: Tensor, temperature: float = 1.0, kind: str = "kl"
) -> Tensor:
    """How far the student's logits are from the teacher's, [row, class] to [row], at a temperature
    (Hinton et al., 2015): KL(teacher || student), or with "cross-entropy" that and the teacher's
    own entropy, which has no gradient. Times the temperature squared, so that gradients keep their
    size beside those of hard targets."""
    wanted = F.log_softmax(teacher / temperature, -1)
    found = F.log_softmax(student / temperature, -1)
    compared = wanted - found if kind == "kl" else -found
    return (wanted.exp() * compared).sum(-1) * temperature**2
