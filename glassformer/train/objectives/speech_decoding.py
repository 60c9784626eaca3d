"""Greedy transcripts of a batch, to measure the word error of a model in training."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor, nn


@torch.no_grad()
def greedy_tokens(
    model: nn.Module,
    memory: Tensor,
    begun: Tensor,
    end: int,
    most: int,
    suppressed: Collection[int] = (),
    suppressed_first: Collection[int] = (),
) -> list[list[int]]:
    """Returns the tokens that the decoder writes for each row, without the end token.

    Args:
        model: The network.
        memory: The encoder's output, [row, position, width].
        begun: The tokens that every row begins with, [row, token].
        end: The token that ends a row.
        most: The maximum number of new tokens.
        suppressed: Tokens that are never written.
        suppressed_first: Tokens with which no text begins.
    """
    net: Any = model
    cache, ids = net.new_cache(), begun
    steps: list[Tensor] = []
    ended = torch.zeros(len(begun), dtype=torch.bool, device=begun.device)
    for step in range(most):
        out = net.decode(
            ids, encoder_hidden_states=memory, cache=cache, heads=("lm",), logits_to_keep=1
        )
        logits = out.logits[:, -1]
        for banned in (suppressed, () if step else suppressed_first):
            if banned:
                logits[:, list(banned)] = -torch.inf
        ids = logits.argmax(-1, keepdim=True)
        steps.append(ids)
        ended |= ids[:, 0] == end
        if bool(ended.all()):
            break
    rows = torch.cat(steps, 1).tolist() if steps else [[] for _ in range(len(begun))]
    return [until(row, end) for row in rows]


def until(tokens: Sequence[int], end: int) -> list[int]:
    """Returns the tokens before the first end token."""
    return list(tokens[: tokens.index(end)] if end in tokens else tokens)
