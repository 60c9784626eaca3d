"""How probable a text is to a model, token by token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.core import Cache, Transformer
from glassformer.errors import GlassformerError

CHUNK = 512
Source = Sequence[int] | Tensor  # token ids, or a sound


class ScoreWindow(NamedTuple):
    """A window over a long text: how many tokens it holds, and how many it moves at a time."""

    size: int | None
    stride: int | None


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


@dataclass(frozen=True)
class QuantizationCost:
    """How well a text was predicted before its weights were made codes, and after."""

    kind: str
    before: Score
    after: Score

    @property
    def growth(self) -> float:
        """Of the perplexity: 0.01 is one percent more."""
        return self.after.perplexity / self.before.perplexity - 1

    def __str__(self) -> str:
        before, after = self.before.perplexity, self.after.perplexity
        return f"{self.kind}: perplexity {before:.4f} -> {after:.4f} ({self.growth:+.2%})"


def windows(context: int | None, window: int | None, stride: int | None) -> ScoreWindow:
    """How a text is read that is longer than a window. Without a context it is read as a whole."""
    for name, value in (("window", window), ("stride", stride)):
        if value is not None and value < 1:
            raise GlassformerError(f"{name} must be 1 or more, not {value}.")
    if context is not None and window is not None and window > context:
        raise GlassformerError(f"window ({window}) is above the model's {context} positions.")
    size = window or context
    if size is not None and stride is not None and stride > size:
        raise GlassformerError(f"stride ({stride}) is above the window ({size}).")
    return ScoreWindow(size, stride or (max(1, size // 2) if size else None))


def score(
    net: Transformer, ids: Sequence[int], frame: ScoreWindow, source: Source | None = None
) -> Score:
    """Of all tokens but the first. Every window scores what the one before has not, with the rest
    of it as their context."""
    if len(ids) < 2:
        raise GlassformerError("A text of one token has nothing to predict; give a longer one.")
    last = len(ids) - 1  # positions that are read
    size = frame.size or last
    logprobs = read(net, ids[: size + 1], 0, source)
    while len(logprobs) < last:
        done = len(logprobs)
        end = min(done + (frame.stride or last), last)
        start = max(0, end - size)
        logprobs += read(net, ids[start : end + 1], done - start, source)
    return Score(tokens=list(ids[1:]), logprobs=logprobs)


@torch.inference_mode()
def read(net: Transformer, ids: Sequence[int], known: int, source: Source | None) -> list[float]:
    """The log-probabilities of all tokens behind the first, without those of `known` ones. Chunks
    keep the logits of a long text out of memory."""
    device = next(net.parameters()).device
    memory = None
    if source is not None:
        memory = net.encode(torch.as_tensor(source, device=device)[None], None)
    tokens = torch.tensor([list(ids)], device=device)
    cache, found = Cache(), []
    for start in range(0, len(ids) - 1, CHUNK):
        end = min(start + CHUNK, len(ids) - 1)
        given = memory if start == 0 else None
        out = net(tokens[:, start:end], memory=given, cache=cache)
        assert out.logits is not None
        log = out.logits[0].float().log_softmax(-1)
        found += log.gather(1, tokens[0, start + 1 : end + 1, None])[:, 0].tolist()
    return found[known:]
