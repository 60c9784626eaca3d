"""Sampling: filters over the next-token distribution, and the draw of a token."""

from __future__ import annotations

import zlib

import torch
from torch import Tensor

from glassformer.generate.config import GenerationConfig

NEVER = float("-inf")


def shaped(scores: Tensor, config: GenerationConfig, keep: int = 1) -> Tensor:
    """Applies temperature, top-k, top-p, min-p and typical-p to scores of [row, token].

    Excluded tokens get -inf; at least `keep` tokens remain.
    """
    if config.temperature != 1.0:
        scores = scores / config.temperature
    if config.top_k:
        scores = top_k(scores, max(config.top_k, keep))
    if config.top_p < 1.0:
        scores = top_p(scores, config.top_p, keep)
    if config.min_p > 0.0:
        scores = min_p(scores, config.min_p, keep)
    if config.typical_p < 1.0:
        scores = typical(scores, config.typical_p, keep)
    return scores


def top_k(scores: Tensor, count: int) -> Tensor:
    """Keeps the `count` most probable tokens, and ties with the last of them."""
    least = scores.topk(min(count, scores.shape[-1])).values[:, -1:]
    return scores.masked_fill(scores < least, NEVER)


def top_p(scores: Tensor, mass: float, keep: int) -> Tensor:
    """Keeps the most probable tokens whose probabilities add up to `mass`."""
    ordered, tokens = scores.sort(descending=False)
    below = ordered.softmax(-1).cumsum(-1) <= 1 - mass
    below[:, -keep:] = False
    return scores.masked_fill(below.scatter(1, tokens, below), NEVER)


def min_p(scores: Tensor, share: float, keep: int) -> Tensor:
    """Keeps tokens with at least `share` of the best token's probability."""
    probabilities = scores.softmax(-1)
    below = probabilities < share * probabilities.amax(-1, keepdim=True)
    best = probabilities.topk(min(keep, scores.shape[-1])).indices
    return scores.masked_fill(below.scatter(1, best, False), NEVER)


def typical(scores: Tensor, mass: float, keep: int) -> Tensor:
    """Locally typical sampling (Meister et al.).

    Keeps the tokens whose surprisal is closest to the entropy, up to a total probability of `mass`.
    """
    log = scores.log_softmax(-1)
    entropy = -(log * log.exp()).nansum(-1, keepdim=True)
    distance, tokens = (-log - entropy).abs().sort()
    share = scores.gather(1, tokens).softmax(-1).cumsum(-1)
    last = (share < mass).sum(-1, keepdim=True).clamp(max=scores.shape[-1] - 1)
    beyond = distance > distance.gather(1, last)
    beyond[:, :keep] = False
    return scores.masked_fill(beyond.scatter(1, tokens, beyond), NEVER)


def largest(scores: Tensor) -> Tensor:
    """Returns the argmax of each row, the first one of ties; on a CPU, numpy's argmax is faster."""
    if scores.device.type == "cpu" and not scores.requires_grad:
        return torch.from_numpy(scores.numpy().argmax(-1))
    return scores.argmax(-1)


def generator_of(seed: int, sequence: int) -> torch.Generator:
    """Returns the random generator of a sequence; it does not depend on the rest of the batch."""
    return torch.Generator().manual_seed(zlib.crc32(f"{seed} {sequence}".encode()))


def chances(seed: int, sequence: int, count: int) -> Tensor:
    """Returns uniform random numbers in (0, 1], one per token."""
    return 1 - torch.rand(count, generator=generator_of(seed, sequence), dtype=torch.float64)


def draw(scores: Tensor, chance: Tensor) -> Tensor:
    """Samples by inverse CDF: the token at which the cumulative probability reaches `chance`."""
    cumulated = scores.double().softmax(-1).cumsum(-1)
    return torch.searchsorted(cumulated, chance[:, None] * cumulated[:, -1:])[:, 0]
