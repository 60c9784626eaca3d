"""Decoding strategies: choosing the next token from the logits.

A strategy manages the rows of a batch. It takes `width` rows for each request, receives the logits
of all rows at every step, and returns which rows continue with which token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.generate.config import DEFAULTS, GenerationConfig
from glassformer.generate.history import SequenceState
from glassformer.generate.processors import Processor
from glassformer.generate.sampling import chances, draw, largest, shaped
from glassformer.generate.stops import StoppingCriteria

CONSTRAINTS = (  # settings that may forbid tokens
    "regex",
    "prefix_allowed_tokens_fn",
    "logits_processor",
    "bad_words_ids",
    "suppress_tokens",
    "begin_suppress_tokens",
    "no_repeat_ngram_size",
    "min_new_tokens",
    "min_length",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "force_words_ids",
    "return_timestamps",
)


@dataclass(frozen=True)
class GenerationRequest:
    """Prompt of the decoder, and for an encoder-decoder the input of the encoder (`source`)."""

    number: int
    prompt: tuple[int, ...]
    limit: int  # maximum number of new tokens
    source: Any = None


class GeneratedToken(NamedTuple):
    """Newly generated token of sequence number `sequence` of a request."""

    request: int
    sequence: int
    id: int
    logprob: float


@dataclass
class FinishedSequence:
    """Finished sequence. Beam search finishes all sequences of a request at once, best first."""

    request: int
    sequence: int
    tokens: list[int]
    logprobs: list[float]
    stop: str
    score: float | None = None
    tree: list[Any] | None = None


class StepChoice(NamedTuple):
    """Rows that continue: the parent row of each, and its newest token."""

    parents: Tensor
    tokens: Tensor


@dataclass
class StepOutput:
    """Tokens generated and sequences finished in one step."""

    tokens: list[GeneratedToken] = field(default_factory=list)
    finished: list[FinishedSequence] = field(default_factory=list)


class Strategy(Protocol):
    """Interface of decoding strategies; see the module docstring."""

    width: int

    @property
    def requests(self) -> int:
        """Number of unfinished requests."""
        ...

    def begin(self, requests: Sequence[GenerationRequest], device: torch.device) -> None: ...

    def advance(self, logits: Tensor) -> tuple[StepChoice, StepOutput]: ...


class SamplingStrategy:
    """Greedy search and sampling, with one row per returned sequence."""

    logprobs_after_processors = False

    def __init__(
        self, config: GenerationConfig, processors: list[Processor], stops: StoppingCriteria
    ) -> None:
        self.config, self.processors, self.stops = config, processors, stops
        self.width = config.num_return_sequences
        self.history: SequenceState | None = None
        self.rows: list[tuple[GenerationRequest, int]] = []
        self.chance: Tensor | None = None  # [row, new token]

    @property
    def requests(self) -> int:
        return len({request.number for request, _ in self.rows})

    def begin(self, requests: Sequence[GenerationRequest], device: torch.device) -> None:
        self.stops.begin(requests)
        rows = [(request, i) for request in requests for i in range(self.width)]
        prompts, limits = [r.prompt for r, _ in rows], [r.limit for r, _ in rows]
        fresh = SequenceState.of(prompts, limits, device)
        if self.history is None or not self.rows:
            self.history = fresh
        else:
            self.history.join(fresh)
        self.rows = self.rows + rows
        if self.config.do_sample:
            longest = max(request.limit for request, _ in self.rows)
            self.chance = torch.stack(
                [chances(self.config.seed, i, longest) for _, i in self.rows]
            ).to(device)

    def advance(self, logits: Tensor) -> tuple[StepChoice, StepOutput]:
        assert self.history is not None
        tokens, logprobs = self.choose(logits)
        self.history.append(tokens, logprobs)
        news, stays = StepOutput(), []
        reasons = self.stops.of(self.history, [request for request, _ in self.rows])
        said = zip(tokens.tolist(), logprobs.tolist(), strict=True)
        for row, ((request, i), (token, logprob)) in enumerate(zip(self.rows, said, strict=True)):
            news.tokens.append(GeneratedToken(request.number, i, token, logprob))
            if reasons[row] is None:
                stays.append(row)
            else:
                whole = self.history.new(row)
                news.finished.append(
                    FinishedSequence(request.number, i, *whole, stop=reasons[row] or "")
                )
        parents = torch.tensor(stays, device=tokens.device, dtype=torch.long)
        if len(stays) < len(self.rows):
            self.history.select(parents)
            self.rows = [self.rows[row] for row in stays]
            tokens = tokens[parents]
            self.chance = None if self.chance is None else self.chance[parents]
        return StepChoice(parents, tokens), news

    def choose(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the next token of each row, and its log-probability."""
        assert self.history is not None
        scores = processed(self.processors, self.history, logits)
        best = largest(scores)
        if self.processors and (stuck := scores.gather(1, best[:, None]).isneginf()).any():
            row = int(stuck.int().argmax())
            made = int(self.history.made[row])
            raise NoTokenLeftError(self.config, self.rows[row][0].number, made)
        if self.chance is not None:
            chance = self.chance.gather(1, self.history.made[:, None])[:, 0]
            best = draw(shaped(scores, self.config), chance)
        return best, logprobs_of(scores if self.logprobs_after_processors else logits, best)


def processed(
    processors: Sequence[Processor], history: SequenceState, scores: Tensor, *, spoil: bool = False
) -> Tensor:
    """Applies the logits processors.

    With `spoil=True`, they may modify `scores` in place.
    """
    scores = scores if spoil or not processors else scores.clone()
    for process in processors:
        scores = process(history, scores)
    return scores


class NoTokenLeftError(ConfigError):
    """Raised when the settings forbid every token that could follow."""

    def __init__(self, config: GenerationConfig, request: int, made: int) -> None:
        names = [name for name in CONSTRAINTS if getattr(config, name) != DEFAULTS[name]]
        where = f"after {made} new tokens" if made else "at the beginning of the text"
        super().__init__(
            f"No token is left {where}: all are forbidden by {', '.join(names)}; loosen what is "
            "too narrow, or write less."
        )
        self.request = request


def logprobs_of(logits: Tensor, tokens: Tensor) -> Tensor:
    """Returns the log-probabilities of tokens under the model itself, without any settings."""
    if logits.device.type == "cpu":  # a single kernel is faster there
        return logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0]
    return logits.gather(1, tokens[:, None])[:, 0] - logits.logsumexp(-1)


StrategyMaker = Callable[[GenerationConfig, list[Processor], StoppingCriteria], Strategy]
