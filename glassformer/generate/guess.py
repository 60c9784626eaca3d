"""Speculative decoding: propose several tokens cheaply, then verify them in one forward pass.

The verification computes at every position what the model would have chosen there, with the same
settings and the same random numbers. The text is therefore the one that the model alone would have
generated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from glassformer.core import Cache, Transformer
from glassformer.generate.runner import Runner
from glassformer.generate.strategy import GenerationRequest, SamplingStrategy, StepOutput

LONGEST_MATCH = 3  # longest n-gram that is looked up in the text so far


class Proposer(Protocol):
    """Interface of token proposers."""

    def guess(self, text: Sequence[int], count: int) -> list[int]:
        """Returns at most `count` tokens that may follow the text."""
        ...


class PromptLookup:
    """Finds the last earlier occurrence of the text's final n-gram; proposes what followed it."""

    def guess(self, text: Sequence[int], count: int) -> list[int]:
        for size in range(min(LONGEST_MATCH, len(text) - 1), 0, -1):
            end = list(text[-size:])
            for start in range(len(text) - size - 1, -1, -1):
                if list(text[start : start + size]) == end:
                    return list(text[start + size : start + size + count])
        return []


class DraftModel:
    """Proposes tokens by greedy search with a smaller model of the same vocabulary."""

    def __init__(self, net: Transformer, source: Sequence[int] | Tensor | None) -> None:
        self.net = net
        self.device = next(net.parameters()).device
        self.cache = Cache()
        self.read: list[int] = []  # tokens in its cache
        self.source = source

    def guess(self, text: Sequence[int], count: int) -> list[int]:
        same = 0
        while same < min(len(self.read), len(text) - 1) and self.read[same] == text[same]:
            same += 1
        self.cache.crop(self.cache.length - len(self.read) + same)
        self.read = self.read[:same]
        new, guesses = list(text[same:]), []
        for _ in range(count):
            guesses.append(self._next(new))
            new = guesses[-1:]
        return guesses

    def _next(self, tokens: list[int]) -> int:
        memory = None
        if self.source is not None and not self.cache.has_cross_attention:
            memory = self.net.encode(torch.as_tensor(self.source, device=self.device)[None])
        ids = torch.tensor([tokens], device=self.device)
        out = self.net.decode(ids, encoder_hidden_states=memory, cache=self.cache, logits_to_keep=1)
        self.read += tokens
        assert out.logits is not None
        return int(out.logits[0, -1].argmax())


@torch.inference_mode()
def run_guessing(
    runner: Runner,
    pick: SamplingStrategy,
    request: GenerationRequest,
    guesser: Proposer,
    count: int,
) -> Iterator[StepOutput]:
    """Runs one request; yields the output of every token."""
    pick.begin([request], runner.device)
    logits = runner.read([request], 1)
    cache, text, made = runner.cache, list(request.prompt), 0
    assert cache is not None
    guesses: list[int] = []
    while True:
        accepted = 0
        for place in range(len(logits)):
            choice, news = pick.advance(logits[place : place + 1])
            yield news
            if not len(choice.tokens):
                return
            made += 1
            text.append(int(choice.tokens[0]))
            if place == len(guesses) or text[-1] != guesses[place]:
                break
            accepted += 1
        if guesses:
            cache.crop(cache.length - len(guesses) + accepted)
        guesses = guesser.guess(text, min(count, request.limit - made - 1))
        out = runner.net.decode(
            torch.tensor([[text[-1], *guesses]], device=runner.device), cache=cache
        )
        assert out.logits is not None
        logits = out.logits[0].float()
