"""Tokens of every row of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

NOTHING = -1


@dataclass
class SequenceState:
    """Tokens and log-probabilities of a batch of sequences.

    Rows are right-aligned: the newest token of every row is in the last slot, as in the cache.
    """

    tokens: Tensor  # [row, slot]; NOTHING before a row's first token
    logprobs: Tensor  # [row, slot]; 0 at the prompt
    prompt: Tensor  # [row]: number of prompt tokens
    limit: Tensor  # [row]: maximum number of new tokens
    made: Tensor  # [row]: number of new tokens so far

    @classmethod
    def of(
        cls, prompts: Sequence[Sequence[int]], limits: Sequence[int], device: torch.device
    ) -> SequenceState:
        longest = max(map(len, prompts))
        rows = [[NOTHING] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
        tokens = torch.tensor(rows, device=device)
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        return cls(
            tokens=tokens,
            logprobs=torch.zeros(tokens.shape, device=device),
            prompt=lengths,
            limit=torch.tensor(limits, device=device),
            made=torch.zeros_like(lengths),
        )

    def __len__(self) -> int:
        return len(self.tokens)

    def append(self, tokens: Tensor, logprobs: Tensor) -> None:
        self.tokens = torch.cat((self.tokens, tokens[:, None]), 1)
        self.logprobs = torch.cat((self.logprobs, logprobs[:, None]), 1)
        self.made = self.made + 1

    def select(self, rows: Tensor) -> None:
        self.tokens, self.logprobs = self.tokens[rows], self.logprobs[rows]
        self.prompt, self.made, self.limit = self.prompt[rows], self.made[rows], self.limit[rows]

    def join(self, other: SequenceState) -> None:
        """Appends the rows of another state below these."""
        slots = max(self.tokens.shape[1], other.tokens.shape[1])
        self.tokens = torch.cat([_widened(h.tokens, slots, NOTHING) for h in (self, other)])
        self.logprobs = torch.cat([_widened(h.logprobs, slots, 0.0) for h in (self, other)])
        self.prompt = torch.cat((self.prompt, other.prompt))
        self.made = torch.cat((self.made, other.made))
        self.limit = torch.cat((self.limit, other.limit))

    @property
    def is_new(self) -> Tensor:
        """Mask of the new tokens, [row, slot]."""
        slots = self.tokens.shape[1]
        return torch.arange(slots, device=self.tokens.device) >= slots - self.made[:, None]

    @property
    def last(self) -> Tensor:
        return self.tokens[:, -1]

    def new(self, row: int) -> tuple[list[int], list[float]]:
        """Returns a row's new tokens and their log-probabilities."""
        start = self.tokens.shape[1] - int(self.made[row])
        return self.tokens[row, start:].tolist(), self.logprobs[row, start:].tolist()

    def prompt_of(self, row: int) -> list[int]:
        end = self.tokens.shape[1] - int(self.made[row])
        return self.tokens[row, end - int(self.prompt[row]) : end].tolist()

    def whole(self, row: int) -> Tensor:
        return self.tokens[row, self.tokens.shape[1] - int(self.prompt[row] + self.made[row]) :]


def _widened(x: Tensor, slots: int, fill: float) -> Tensor:
    return torch.nn.functional.pad(x, (slots - x.shape[1], 0), value=fill)
