"""Whisper's rules of timestamps as a logits processor.

A transcript with timestamps is a sequence of segments, each a start time, a text and an end time.
The rules (Radford et al., 2022, section 4.5, and OpenAI's program) keep generated tokens in this
form: times come in pairs and do not decrease, the first is near the beginning, and a time is
generated where all times together are more probable than any other token.
"""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.generate.history import SequenceState

NEVER = float("-inf")
PRECISION = 0.02
"""Seconds between two timestamp tokens."""


class TimestampRules:
    """The logits processor.

    Args:
        no_timestamps: The token that disables timestamps; the timestamp tokens follow it.
        eos: The end token. All tokens of texts come before it.
        max_initial: Largest index of the first timestamp, in steps of 0.02 s; None: any.
    """

    def __init__(self, no_timestamps: int, eos: int, max_initial: int | None) -> None:
        self.no_timestamps, self.eos, self.max_initial = no_timestamps, eos, max_initial
        self.begin = no_timestamps + 1

    def __call__(self, history: SequenceState, scores: Tensor) -> Tensor:
        if self.begin >= scores.shape[1]:
            raise ConfigError(
                f"no_timestamps_token_id is {self.no_timestamps}, and the model's tokens end at "
                f"{scores.shape[1] - 1}: it has no timestamps."
            )
        scores[:, self.no_timestamps].fill_(NEVER)
        times, texts = scores[:, self.begin :], scores[:, : self.eos]
        is_time = self._is_time(history)
        last = is_time[:, -1] & (history.made > 0)
        earlier = is_time[:, -2] if is_time.shape[1] > 1 else torch.zeros_like(last)
        before = earlier | (history.made < 2)  # a first time counts as the end of a pair
        times.masked_fill_((last & before)[:, None], NEVER)
        texts.masked_fill_((last & ~before)[:, None], NEVER)
        # times do not decrease, and a segment is not empty
        newest = torch.where(is_time, history.tokens - self.begin, -1).amax(1)
        least = torch.where(last & ~before, newest, newest + 1)
        index = torch.arange(times.shape[1], device=scores.device)
        times.masked_fill_((index < least[:, None]), NEVER)
        first = (history.made == 0)[:, None]
        scores[:, : self.begin].masked_fill_(first, NEVER)
        if self.max_initial is not None:
            times.masked_fill_(first & (index > self.max_initial), NEVER)
        log = scores.log_softmax(-1, dtype=torch.float32)
        likely = log[:, self.begin :].logsumexp(-1) > log[:, : self.begin].amax(-1)
        scores[:, : self.begin].masked_fill_(likely[:, None], NEVER)
        return scores

    def _is_time(self, history: SequenceState) -> Tensor:
        """Returns which tokens are new timestamps, [row, slot]."""
        return history.is_new & (history.tokens >= self.begin)
