"""Decoding loop with continuous batching.

Rows of finished requests leave the batch at once and waiting requests take their place, so that the
batch stays full whatever the lengths.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from glassformer.generate.runner import Runner
from glassformer.generate.strategy import GenerationRequest, StepOutput, Strategy


@torch.inference_mode()
def run(
    runner: Runner, strategy: Strategy, requests: Sequence[GenerationRequest], batch_size: int
) -> Iterator[StepOutput]:
    """Runs all requests; yields the output of every step."""
    waiting = deque(requests)
    most = max(1, batch_size // strategy.width)
    logits: Tensor | None = None
    while waiting or strategy.requests:
        room = most - strategy.requests
        if waiting and room > 0 and (runner.joins or not strategy.requests):
            new = [waiting.popleft() for _ in range(min(room, len(waiting)))]
            strategy.begin(new, runner.device)
            first = runner.read(new, strategy.width)
            logits = first if logits is None else torch.cat((logits, first))
        assert logits is not None
        choice, news = strategy.advance(logits)
        yield news
        if len(choice.parents):
            logits = runner.step(choice.parents, choice.tokens)
        else:
            runner.forget()
            logits = None
