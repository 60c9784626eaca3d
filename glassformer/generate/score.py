"""Generate room, scoring: how probable a text is to a model, token by token."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from glassformer.core import Net
from glassformer.errors import GlassformerError


@dataclass(frozen=True)
class Score:
    """`logprobs` has one number a token that is predicted: all but the first (for an
    encoder-decoder all of the target)."""

    tokens: list[int]
    logprobs: list[float]

    @property
    def total(self) -> float:
        return math.fsum(self.logprobs)

    @property
    def perplexity(self) -> float:
        return math.exp(-self.total / len(self.logprobs))


@torch.inference_mode()
def score(net: Net, ids: list[int], source: list[int] | None, start: int | None) -> Score:
    device = next(net.parameters()).device
    inputs = ids if start is None else [start, *ids]
    if len(inputs) < 2:
        raise GlassformerError("A text of one token has nothing to predict; give a longer one.")
    out = net(
        torch.tensor([inputs[:-1]], device=device),
        source=None if source is None else torch.tensor([source], device=device),
    )
    assert out.logits is not None
    log = out.logits[0].float().log_softmax(-1)
    wanted = torch.tensor(inputs[1:], device=device)
    logprobs = log.gather(1, wanted[:, None])[:, 0].tolist()
    return Score(tokens=inputs[1:], logprobs=logprobs)
