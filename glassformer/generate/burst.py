"""Generate room, bursts: greedy search and sampling on a GPU, with the choice inside the recording.

The host plays several steps without looking, then reads what came and sees who is at an end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.core import Net
from glassformer.generate.knobs import Knobs
from glassformer.generate.sampling import chances, draw, shaped
from glassformer.generate.static import Slots, StaticRunner, decode
from glassformer.generate.stops import Stops
from glassformer.generate.strategy import Finished, News, Request, Token, logprobs_of

BURST = 16
PARTS = 64  # in which a large vocabulary is searched for its maximum


class Row:
    """A sequence that is being written."""

    def __init__(self, request: Request, sequence: int, knobs: Knobs) -> None:
        self.request, self.sequence = request, sequence
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.chances = chances(knobs.seed, sequence, request.limit) if knobs.do_sample else None

    def written(self) -> list[int]:
        return self.tokens

    @property
    def left(self) -> int:
        return self.request.limit - len(self.tokens)


class BurstRunner(StaticRunner):
    def __init__(self, net: Net, knobs: Knobs, *, rows: int) -> None:
        self.knobs = knobs
        super().__init__(net, rows=rows, chunk=knobs.prefill_chunk, compiled=knobs.compile)
        shape, device = (self.rows, BURST), self.device
        self.count = torch.zeros(1, dtype=torch.long, device=device)
        self.made = torch.zeros(shape, dtype=torch.long, device=device)
        self.logprobs = torch.zeros(shape, device=device)
        self.chance = torch.ones(shape, dtype=torch.float64, device=device)

    def work(self, net: Net, tokens: Tensor, slots: Slots) -> Tensor:
        logits = decode(net, tokens, slots)
        token = self.choose(logits, self.chance.index_select(1, self.count)[:, 0])
        self.logprobs.index_copy_(1, self.count, logprobs_of(logits, token)[:, None])
        self.made.index_copy_(1, self.count, token[:, None])
        tokens.copy_(token[:, None])
        self.count.add_(1)
        return logits

    def choose(self, logits: Tensor, chance: Tensor) -> Tensor:
        if self.knobs.do_sample:
            return draw(shaped(logits, self.knobs), chance)
        return first_maximum(logits)

    def record(self) -> None:
        self.count.zero_()
        super().record()

    def burst(
        self, steps: int, chance: Sequence[Tensor | None]
    ) -> tuple[list[list[int]], list[list[float]]]:
        """So many tokens of every live row, and their log-probabilities."""
        assert self.slots is not None
        if self.knobs.do_sample:
            rows = [F.pad(c, (0, BURST - len(c)), value=1.0) for c in chance if c is not None]
            table = torch.stack(rows)
            self.chance[: len(table)] = table.to(self.device)
        self.count.zero_()
        for _ in range(steps):
            self.graph.replay()
        self.slots.length += steps
        live = slice(0, self.live)
        return self.made[live, :steps].tolist(), self.logprobs[live, :steps].tolist()


def first_maximum(scores: Tensor) -> Tensor:
    """argmax over [row, token], in two steps: one row alone would keep most of a GPU waiting."""
    size = -(-scores.shape[1] // PARTS)
    parts = F.pad(scores, (0, PARTS * size - scores.shape[1]), value=float("-inf"))
    best, at = parts.view(len(scores), PARTS, size).max(-1)
    part = best.argmax(-1, keepdim=True)
    return (part * size + at.gather(1, part))[:, 0]


@torch.inference_mode()
def run_bursts(
    runner: BurstRunner, knobs: Knobs, stops: Stops, requests: Sequence[Request]
) -> Iterator[News]:
    """Yields what every burst brought."""
    waiting, rows, width = deque(requests), list[Row](), knobs.num_return_sequences
    while waiting or rows:
        room = min((runner.rows - len(rows)) // width, len(waiting))
        new = [waiting.popleft() for _ in range(room)]
        if new:
            stops.begin(new)
            logits = runner.read(new, width)
            fresh = [Row(request, i, knobs) for request in new for i in range(width)]
            first = [torch.ones(()) if row.chances is None else row.chances[0] for row in fresh]
            chance = torch.stack(first).to(logits.device, torch.float64)
            token = runner.choose(logits, chance)
            runner.tokens[len(rows) : len(rows) + len(fresh), 0] = token
            logprobs = logprobs_of(logits, token)
            yield from take(fresh, token[:, None].tolist(), logprobs[:, None].tolist(), stops)
            rows = rows + fresh
        rows = leave(runner, rows)
        if not rows:
            continue
        steps = min(BURST, min(row.left for row in rows))
        chances_ahead = [
            None if row.chances is None else row.chances[len(row.tokens) :][:BURST] for row in rows
        ]
        yield from take(rows, *runner.burst(steps, chances_ahead), stops)
        rows = leave(runner, rows)


def take(
    rows: list[Row], made: list[list[int]], logprobs: list[list[float]], stops: Stops
) -> Iterator[News]:
    """Adds the tokens to their rows, step by step, up to where each row ends."""
    for tokens, values in zip(zip(*made, strict=True), zip(*logprobs, strict=True), strict=True):
        news = News()
        for row, token, value in zip(rows, tokens, values, strict=True):
            if row.request is ENDED:
                continue
            row.tokens.append(token)
            row.logprobs.append(value)
            number = row.request.number
            news.tokens.append(Token(number, row.sequence, token, value))
            reason = stops.reason(token, len(row.tokens), row.request, row.written)
            if reason is not None:
                whole = Finished(number, row.sequence, row.tokens, row.logprobs, reason)
                news.finished.append(whole)
                row.request = ENDED
        yield news


ENDED = Request(-1, (), 0)


def leave(runner: BurstRunner, rows: list[Row]) -> list[Row]:
    """Rows that are at their end make room; the others move together."""
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
