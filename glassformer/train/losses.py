"""Train room, losses: a decoder's. The heads' logits and the text become one number."""

from __future__ import annotations

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
