"""Generate room, beam search: the most probable texts as a whole, several at a time.

With groups, each searches for itself but is made to differ from those before it (Vijayakumar et
al.); with sampling, candidates are drawn without replacement instead of taken from the top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.generate.history import History
from glassformer.generate.knobs import Knobs
from glassformer.generate.processors import Processor
from glassformer.generate.sampling import generator_of, shaped
from glassformer.generate.stops import Stops
from glassformer.generate.strategy import (
    Choice,
    Finished,
    News,
    NoTokenLeftError,
    Request,
    processed,
)

NEVER = -1e9
IMPOSSIBLE = float("-inf")


class Candidate(NamedTuple):
    """A way to go on. Its beam is counted among those of its request."""

    beam: int
    token: int
    score: float  # the sum of log-probabilities, as the knobs have changed them


@dataclass
class Step:
    """What one step of a search kept and pruned, for `Generation.tree`."""

    kept: list[Candidate]
    finished: list[Candidate]
    pruned: list[Candidate]


@dataclass
class Group:
    """A request's search, or one of several groups of beams that search side by side."""

    request: Request
    generator: torch.Generator
    finished: list[Finished] = field(default_factory=list)
    over: bool = False  # nothing that it finds could still be better


class Beam:
    def __init__(self, knobs: Knobs, processors: list[Processor], stops: Stops) -> None:
        self.knobs, self.processors, self.stops = knobs, processors, stops
        self.width = knobs.num_beams
        self.beams = knobs.num_beams // knobs.num_beam_groups  # of a group
        self.candidates = max(2, 1 + len(knobs.eos_token_id)) * self.beams
        self.history: History | None = None
        self.scores: Tensor | None = None  # [request, beam]
        self.groups: list[list[Group]] = []  # of each request
        self.trees: dict[int, list[Step]] = {}
        self.made: list[int] = []  # of this step: tokens that each row has made,
        self.log: Tensor | None = None  # and the model's log-probabilities, [row, token]

    @property
    def requests(self) -> int:
        return len(self.groups)

    def begin(self, requests: Sequence[Request], device: torch.device) -> None:
        self.stops.begin(requests)
        prompts = [request.prompt for request in requests for _ in range(self.width)]
        fresh = History.of(prompts, device)
        first = torch.full((len(requests), self.width), NEVER, device=device)
        first[:, :: self.beams] = 0.0  # all beams are the same yet, so one of a group will do
        if self.history is None or self.scores is None or not self.groups:
            self.history, self.scores = fresh, first
        else:
            self.history.join(fresh)
            self.scores = torch.cat((self.scores, first))
        for request in requests:
            count = self.knobs.num_beam_groups
            source = generator_of(self.knobs.seed, 0)
            self.groups.append([Group(request, source) for _ in range(count)])
            self.trees[request.number] = []

    def advance(self, logits: Tensor) -> tuple[Choice, News]:
        assert self.history is not None and self.scores is not None
        self.log = log = logits.float().log_softmax(-1)
        self.made = self.history.made.tolist()
        scores = processed(self.processors, self.history, log)
        if self.knobs.do_sample:
            scores = shaped(scores, self.knobs, keep=len(self.knobs.eos_token_id) + 1)
        every = scores.view(*self.scores.shape, -1) + self.scores[..., None]
        return self.go_on(self.choose(every), log)

    def choose(self, every: Tensor) -> list[list[Candidate]]:
        """The beams of each request that go on, from [request, beam, token]. Groups take turns, and
        shun each other's tokens."""
        chosen: list[list[Candidate]] = [[] for _ in self.groups]
        for g in range(self.knobs.num_beam_groups):
            first = g * self.beams
            part = every[:, first : first + self.beams]
            if g and self.knobs.diversity_penalty:
                counts = torch.zeros_like(part[:, 0])
                for row, beams in enumerate(chosen):
                    said = torch.tensor([c.token for c in beams], device=part.device)
                    counts[row].index_add_(0, said, torch.ones_like(said, dtype=counts.dtype))
                part = part - self.knobs.diversity_penalty * counts[:, None]
            for row, found in enumerate(self.best(part, first, g)):
                chosen[row] += self.settle(row, g, found)
        return chosen

    def best(self, part: Tensor, first: int, g: int) -> list[list[Candidate]]:
        """The best ways to go on, for every request, from [request, beam, token]."""
        flat = part.flatten(1)
        count = min(self.candidates, flat.shape[1])
        if self.knobs.do_sample:
            noise = torch.stack(
                [torch.rand(flat.shape[1], generator=row[g].generator) for row in self.groups]
            ).to(flat.device)
            places = (flat - (-noise.log()).log()).topk(count).indices  # Gumbel: as if drawn
            values = flat.gather(1, places)
        else:
            values, places = flat.topk(count)
        size = part.shape[-1]
        return [
            [
                Candidate(first + p // size, p % size, v)
                for p, v in zip(ps, vs, strict=True)
                if v > IMPOSSIBLE
            ]
            for ps, vs in zip(places.tolist(), values.tolist(), strict=True)
        ]

    def settle(self, row: int, g: int, found: list[Candidate]) -> list[Candidate]:
        """Sorts candidates into those that are at their end and those that go on."""
        group = self.groups[row][g]
        made = self.made[row * self.width] + 1
        going: list[Candidate] = []
        ended: list[Candidate] = []
        for rank, candidate in enumerate(found):
            reason = self.ends(row, candidate, made, group.request)
            if reason is None:
                going.append(candidate)
            else:
                ended.append(candidate)
                if rank < self.beams and not group.over:
                    self.keep(group, row, candidate, made, reason)
        going = self.ranked(going)
        kept = going[: self.beams]
        if self.knobs.tree:
            self.trees[group.request.number].append(Step(kept, ended, going[self.beams :]))
        full = self.knobs.early_stopping is True and len(group.finished) == self.beams
        group.over = group.over or full or not kept or not self.may_improve(group, kept, made)
        if group.over and not group.finished:
            raise NoTokenLeftError(self.knobs, group.request.number, made - 1)
        kept = kept or found[:1] or [Candidate(g * self.beams, 0, NEVER)]
        return kept + [kept[-1]._replace(score=NEVER)] * (self.beams - len(kept))

    def ranked(self, going: list[Candidate]) -> list[Candidate]:
        return sorted(going, key=lambda candidate: -candidate.score)

    def ends(self, row: int, candidate: Candidate, made: int, request: Request) -> str | None:
        assert self.history is not None
        at = row * self.width + candidate.beam
        history = self.history
        return self.stops.reason(
            candidate.token, made, request, lambda: [*history.new(at)[0], candidate.token]
        )

    def keep(self, group: Group, row: int, candidate: Candidate, made: int, reason: str) -> None:
        """Adds a text to the finished ones, of which only the best stay."""
        assert self.history is not None and self.log is not None
        score = candidate.score / made**self.knobs.length_penalty
        if len(group.finished) == self.beams and score <= (group.finished[-1].score or 0.0):
            return
        at = row * self.width + candidate.beam
        tokens, logprobs = self.history.new(at)
        tokens.append(candidate.token)
        logprobs.append(float(self.log[at, candidate.token]))
        number = group.request.number
        group.finished.append(Finished(number, 0, tokens, logprobs, reason, score))
        group.finished.sort(key=lambda one: -(one.score or 0.0))
        del group.finished[self.beams :]

    def may_improve(self, group: Group, kept: list[Candidate], made: int) -> bool:
        if len(group.finished) < self.beams:
            return True
        penalty = self.knobs.length_penalty
        patient = self.knobs.early_stopping == "never" and penalty > 0
        length = group.request.limit if patient else made
        best = max(candidate.score for candidate in kept)
        return bool(best / length**penalty > (group.finished[-1].score or 0.0))

    def go_on(self, chosen: list[list[Candidate]], log: Tensor) -> tuple[Choice, News]:
        assert self.history is not None and self.scores is not None
        device, news = log.device, News()
        rows = [row for row, groups in enumerate(self.groups) if not all(g.over for g in groups)]
        for row, groups in enumerate(self.groups):
            if row not in rows:
                news.finished += self.result(groups)
        flat = [(row * self.width + c.beam, c.token, c.score) for row in rows for c in chosen[row]]
        parents = torch.tensor([one[0] for one in flat], device=device, dtype=torch.long)
        tokens = torch.tensor([one[1] for one in flat], device=device, dtype=torch.long)
        scores = torch.tensor([one[2] for one in flat], device=device)
        self.scores = scores.view(len(rows), self.width)
        self.history.select(parents)
        self.history.append(tokens, log[parents, tokens])
        self.groups = [self.groups[row] for row in rows]
        return Choice(parents, tokens), news

    def result(self, groups: list[Group]) -> list[Finished]:
        whole = sorted((one for g in groups for one in g.finished), key=lambda f: -(f.score or 0.0))
        best = whole[: self.knobs.num_return_sequences]
        tree = self.trees.pop(groups[0].request.number)
        for place, one in enumerate(best):
            one.sequence = place
            one.tree = tree if self.knobs.tree else None
        return best
