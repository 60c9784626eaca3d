"""Greedy search and sampling on a GPU with the choice of tokens inside the CUDA graph.

The host launches several steps without synchronizing, then reads the tokens and checks which rows
are finished.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.core import Transformer
from glassformer.generate.backends.triton.step import BestToken
from glassformer.generate.config import GenerationConfig
from glassformer.generate.sampling import chances, draw, shaped
from glassformer.generate.slots import StaticCache
from glassformer.generate.static import StaticRunner
from glassformer.generate.stops import StoppingCriteria
from glassformer.generate.strategy import (
    FinishedSequence,
    GeneratedToken,
    GenerationRequest,
    StepOutput,
    logprobs_of,
)

BURST = 64  # maximum number of steps; the first bursts are shorter because a text may end soon
SHORTEST = 16


class BurstRow:
    """Sequence being generated."""

    def __init__(self, request: GenerationRequest, sequence: int, config: GenerationConfig) -> None:
        self.request, self.sequence = request, sequence
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.ahead = 0  # tokens generated so far, including those of bursts still running
        self.chances = chances(config.seed, sequence, request.limit) if config.do_sample else None

    def written(self) -> list[int]:
        return self.tokens

    @property
    def left(self) -> int:
        return self.request.limit - self.ahead


class Flight(NamedTuple):
    """Burst running on the device."""

    rows: list[BurstRow]
    made: Tensor  # [row, step], on the host
    logprobs: Tensor
    done: torch.cuda.Event


class BurstRunner(StaticRunner):
    """Static runner whose recorded step also chooses the next tokens."""

    def __init__(self, net: Transformer, config: GenerationConfig, *, rows: int) -> None:
        self.config = replace(config, temperature=1.0)  # which is not a part of a recording
        super().__init__(net, rows=rows, chunk=config.prefill_chunk, compiled=config.compile)
        shape, device = (self.rows, BURST), self.device
        self.count = torch.zeros(1, dtype=torch.long, device=device)
        self.made = torch.zeros(shape, dtype=torch.long, device=device)
        self.logprobs = torch.zeros(shape, device=device)
        self.chance = torch.ones(shape, dtype=torch.float64, device=device)
        self.temperature = torch.ones((), device=device)
        head = net.spec.lm_head
        assert head is not None
        self.best = BestToken(rows, head.num_outputs or 0, device)

    def work(self, net: Transformer, tokens: Tensor, slots: StaticCache) -> Tensor:
        logits = super().work(net, tokens, slots)
        if self.config.do_sample:
            token = self.choose(logits, self.chance.index_select(1, self.count)[:, 0])
            self.logprobs.index_copy_(1, self.count, logprobs_of(logits, token)[:, None])
            self.made.index_copy_(1, self.count, token[:, None])
            tokens.copy_(token[:, None])
        else:
            self.best(logits, tokens, self.made, self.logprobs, self.count)
        self.count.add_(1)
        return logits

    def choose(self, logits: Tensor, chance: Tensor) -> Tensor:
        if self.config.do_sample:
            return draw(shaped(logits / self.temperature, self.config), chance)
        return logits.argmax(-1)

    def record(self) -> None:
        self.count.zero_()
        super().record()

    def burst(self, rows: list[BurstRow], steps: int) -> Flight:
        """Launches `steps` decoding steps for every row."""
        assert self.slots is not None
        ahead = [row.chances[row.ahead :][:BURST] for row in rows if row.chances is not None]
        if ahead:
            table = torch.stack([F.pad(c, (0, BURST - len(c)), value=1.0) for c in ahead])
            self.chance[: len(table)] = table.to(self.device)
        self.count.zero_()
        for _ in range(steps):
            self.graph.replay()
        self.slots.length += steps
        for row in rows:
            row.ahead += steps
        results = []
        for on_device in (self.made, self.logprobs):
            part = on_device[: len(rows), :steps]
            host = torch.empty(part.shape, dtype=part.dtype, pin_memory=True)
            results.append(host.copy_(part, non_blocking=True))
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()
        return Flight(rows, results[0], results[1], done)


@torch.inference_mode()
def run_bursts(
    runner: BurstRunner,
    config: GenerationConfig,
    stops: StoppingCriteria,
    requests: Sequence[GenerationRequest],
) -> Iterator[StepOutput]:
    """Yields the output of every step.

    While the host processes one burst, the device runs the next; for rows that turn out to be
    finished, the work of that burst is discarded.
    """
    runner.temperature.fill_(config.temperature)
    waiting, rows, width = deque(requests), list[BurstRow](), config.num_return_sequences
    flight: Flight | None = None
    while waiting or rows:
        room = min((runner.rows - len(rows)) // width, len(waiting))
        if room and flight is None:
            new = [waiting.popleft() for _ in range(room)]
            fresh, news = admit(runner, config, stops, new, len(rows))
            yield news
            rows = leave(runner, rows + fresh)
            continue
        following = None
        if rows and not room:
            steps = min((BURST, max(SHORTEST, rows[0].ahead), *(row.left for row in rows)))
            following = runner.burst(rows, steps) if steps else None
        if flight is not None:
            yield from take(flight, stops)
            rows = leave(runner, rows)
        flight = following


def admit(
    runner: BurstRunner,
    config: GenerationConfig,
    stops: StoppingCriteria,
    requests: list[GenerationRequest],
    first: int,
) -> tuple[list[BurstRow], StepOutput]:
    """Prefills prompts into the rows from `first` on; returns the rows and their first tokens."""
    stops.begin(requests)
    width = config.num_return_sequences
    logits = runner.read(requests, width)
    rows = [BurstRow(request, i, config) for request in requests for i in range(width)]
    chance = torch.stack([torch.ones(()) if r.chances is None else r.chances[0] for r in rows])
    token = runner.choose(logits, chance.to(logits.device, torch.float64))
    runner.tokens[first : first + len(rows), 0] = token
    logprobs = logprobs_of(logits, token)
    for row in rows:
        row.ahead = 1
    return rows, taken(rows, token.tolist(), logprobs.tolist(), stops)


def take(flight: Flight, stops: StoppingCriteria) -> Iterator[StepOutput]:
    """Waits for a burst and appends its tokens to the rows step by step."""
    flight.done.synchronize()
    for made, logprobs in zip(flight.made.T.tolist(), flight.logprobs.T.tolist(), strict=True):
        yield taken(flight.rows, made, logprobs, stops)


def taken(
    rows: list[BurstRow], tokens: list[int], logprobs: list[float], stops: StoppingCriteria
) -> StepOutput:
    """Appends one token to every row that is not finished."""
    news = StepOutput()
    for row, token, value in zip(rows, tokens, logprobs, strict=True):
        if row.request is ENDED:
            continue
        row.tokens.append(token)
        row.logprobs.append(value)
        number = row.request.number
        news.tokens.append(GeneratedToken(number, row.sequence, token, value))
        reason = stops.reason(token, len(row.tokens), row.request, row.written)
        if reason is not None:
            whole = FinishedSequence(number, row.sequence, row.tokens, row.logprobs, reason)
            news.finished.append(whole)
            row.request = ENDED
    return news


ENDED = GenerationRequest(-1, (), 0)


def leave(runner: BurstRunner, rows: list[BurstRow]) -> list[BurstRow]:
    """Removes finished rows and compacts the others."""
    stay = [i for i, row in enumerate(rows) if row.request is not ENDED]
    if len(stay) == len(rows):
        return rows
    if stay:
        order = runner.order.clone()
        order[: len(stay)] = torch.tensor(stay, device=runner.device)
        assert runner.slots is not None
        runner.slots.rearrange(order)
        runner.tokens.copy_(runner.tokens.index_select(0, order))
    runner.live = len(stay)
    return [rows[i] for i in stay]
