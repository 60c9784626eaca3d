"""The score of a text: the log-probability of each of its tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """Log-probabilities of the tokens of a text.

    `tokens` and `logprobs` have one entry per predicted token: all but the first (for an
    encoder-decoder, all tokens of the target). `unknown_ratio` is the share of the text that the
    vocabulary does not know.
    """

    tokens: list[int]
    logprobs: list[float]
    unknown_ratio: float = 0.0

    @property
    def total(self) -> float:
        return math.fsum(self.logprobs)

    @property
    def perplexity(self) -> float:
        return math.exp(-self.total / len(self.logprobs))
