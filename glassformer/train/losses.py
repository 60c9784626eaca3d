"""Train room, losses: logits and what is wanted become one number."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from glassformer.core.model import Output
from glassformer.errors import GlassformerError
from glassformer.spec import Head, ModelSpec


class Loss(NamedTuple):
    """`parts` are the heads' cross-entropies, in nats; `total` is their weighted sum."""

    total: Tensor
    parts: dict[str, Tensor]


def language_model_loss(
    model: ModelSpec,
    output: Output,
    tokens: Tensor,
    mask: Tensor | None = None,
    progress: float = 0.0,
) -> Loss:
    """How badly every head that predicts tokens did, at all positions at once.

    `progress` is the share of training that is over. A head on layer l of n (counted from 1) has
    done its part when l/2n of it is (Al-Rfou et al., 2018), and is left out from then on.
    """
    parts: dict[str, Tensor] = {}
    weights: dict[str, float] = {}
    for head in model.heads:
        if _predicts(head) and progress < until(head, len(model.last_stack.order)):
            if head.name not in output.heads:
                raise GlassformerError(
                    f"The loss needs what the head {head.name!r} says; run the model with "
                    "auxiliary=True."
                )
            logits = output.heads[head.name][:, : -head.ahead]
            target = tokens[:, head.ahead :]
            if mask is not None:
                real = mask[:, head.ahead :].bool() & mask[:, : -head.ahead].bool()
                logits, target = logits[real], target[real]
            parts[head.name] = F.cross_entropy(
                logits.reshape(-1, logits.shape[-1]), target.flatten()
            )
            weights[head.name] = head.weight
    if not parts:
        raise GlassformerError("This model has no head that predicts tokens; train another way.")
    total = sum((weights[name] * part for name, part in parts.items()), tokens.new_zeros(()))
    return Loss(total, parts)


def until(head: Head, layers: int) -> float:
    """The share of training up to which a head's loss counts."""
    return float("inf") if head.depth is None else (head.depth + 1) / (2 * layers)


def _predicts(head: Head) -> bool:
    return head.name == "lm" or head.auxiliary


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
