"""Times of words, from the cross-attention of the alignment heads by dynamic time warping.

The attention of each head is normalized over the tokens and smoothed by a median filter; the
cheapest monotone path through the mean of the heads assigns frames to tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.core import Transformer
from glassformer.core.hooks import ActivationCapture
from glassformer.generate.encoded_source import EncodedSource

MEDIAN_WIDTH = 7
TOKEN_SECONDS = 0.02
"""Seconds of a position of the encoder."""


@dataclass
class WordTiming:
    """A word, its tokens, and its times in seconds from the start of the window."""

    word: str
    tokens: tuple[int, ...]
    start: float
    end: float
    probability: float


@torch.inference_mode()
def align_words(
    net: Transformer,
    source: EncodedSource,
    before: Sequence[int],
    words: Sequence[tuple[str, tuple[int, ...]]],
    eos: int,
    heads: Sequence[tuple[int, int]],
    positions: int,
) -> list[WordTiming]:
    """Returns the times of the words of a window.

    Args:
        net: The model.
        source: The window.
        before: The tokens before the text; the last one disables timestamps.
        words: The words with their tokens.
        eos: The end token.
        heads: The alignment heads, (layer, head).
        positions: The number of encoder positions that have sound.
    """
    text = [token for _, tokens in words for token in tokens]
    if not text or positions < 1:
        return []
    layers = sorted({layer for layer, _ in heads})
    seen = ActivationCapture(*(f"decoder.blocks.{layer}.cross.pattern" for layer in layers))
    ids = torch.tensor([[*before, *text, eos]], device=next(net.parameters()).device)
    out = net.decode(ids, cache=source.cache(), tap=seen)
    assert out.logits is not None
    first = len(before) - 1
    of_tokens = out.logits[0, first : first + len(text), :eos].float().softmax(-1)
    probabilities = of_tokens[torch.arange(len(text)), text].cpu().numpy()
    patterns = [seen[f"decoder.blocks.{layer}.cross.pattern"][0, head] for layer, head in heads]
    tokens, frames = warp(-alignment_matrix(torch.stack(patterns), positions)[first:-1].numpy())
    jumps = np.pad(np.diff(tokens), (1, 0), constant_values=1).astype(bool)
    times = frames[jumps] * TOKEN_SECONDS
    ends = np.cumsum([len(tokens) for _, tokens in words])
    starts = np.pad(ends[:-1], (1, 0))
    return [
        WordTiming(
            word,
            ids,
            float(times[start]),
            float(times[end]),
            float(probabilities[start:end].mean()),
        )
        for (word, ids), start, end in zip(words, starts, ends, strict=True)
    ]


def alignment_matrix(patterns: Tensor, positions: int) -> Tensor:
    """Returns how well each token fits each position, [token, position].

    Args:
        patterns: The attention of the heads, [head, token, position].
        positions: The number of positions with sound.
    """
    weights = patterns[..., :positions].float().cpu()
    weights = weights / weights.sum(-1, keepdim=True)
    std, mean = torch.std_mean(weights, dim=-2, keepdim=True, correction=0)
    return median_filter((weights - mean) / std, MEDIAN_WIDTH).mean(0)


def median_filter(x: Tensor, width: int) -> Tensor:
    """Returns the medians over the last axis of [head, token, position], reflected at the ends."""
    half = width // 2
    if x.shape[-1] <= half:
        return x
    return F.pad(x, (half, half), "reflect").unfold(-1, width, 1).median(-1).values


def warp(cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the cheapest monotone path through a cost matrix of [row, column].

    The path is given as the row and the column of each of its steps.
    """
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf, np.float32)
    trace = np.full((rows + 1, columns + 1), 2, np.int8)
    total[0, 0] = 0
    for diagonal in range(2, rows + columns + 1):  # cells that do not depend on one another
        i = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        j = diagonal - i
        both, up, left = total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]
        is_both = (both < up) & (both < left)
        is_up = (up < both) & (up < left)
        least = np.where(is_both, both, np.where(is_up, up, left))
        total[i, j] = cost[i - 1, j - 1] + least
        trace[i, j] = np.where(is_both, 0, np.where(is_up, 1, 2))
    trace[0, :], trace[:, 0] = 2, 1
    i, j, path = rows, columns, []
    while i > 0 or j > 0:
        path.append((i - 1, j - 1))
        step = trace[i, j]
        i, j = i - (step != 2), j - (step != 1)
    found = np.array(path[::-1])
    return found[:, 0], found[:, 1]
