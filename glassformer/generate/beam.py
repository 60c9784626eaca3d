"""Beam search over a batch of requests.

With groups (diverse beam search, Vijayakumar et al.), each group searches separately and is
penalized for choices of the groups before it. With sampling, candidates are drawn without
replacement instead of taken from the top. The search itself is in `search.py`; this module adds
requests, stopping criteria and the recording of the search tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.generate.config import GenerationConfig
from glassformer.generate.history import SequenceState
from glassformer.generate.processors import Processor
from glassformer.generate.sampling import generator_of, shaped
from glassformer.generate.search import IMPOSSIBLE, REASONS, BeamState, Found
from glassformer.generate.stops import StoppingCriteria
from glassformer.generate.strategy import (
    FinishedSequence,
    GenerationRequest,
    StepChoice,
    StepOutput,
    processed,
)


class BeamCandidate(NamedTuple):
    """Possible continuation of a beam. `beam` is the index within its request."""

    beam: int
    token: int
    score: float  # sum of log-probabilities after the logits processors


@dataclass
class BeamStep:
    """Candidates kept, finished and pruned in one step, for `GenerationOutput.tree`."""

    kept: list[BeamCandidate]
    finished: list[BeamCandidate]
    pruned: list[BeamCandidate]


class BeamSearch:
    """Decoding strategy that runs a beam search; takes `num_beams` rows for a request."""

    ranked = True

    def __init__(
        self, config: GenerationConfig, processors: list[Processor], stops: StoppingCriteria
    ) -> None:
        self.config, self.processors, self.stops = config, processors, stops
        self.width = config.num_beams
        self.asks_host = bool(stops.strings) or stops.max_time is not None
        self.history: SequenceState | None = None  # for the processors
        self.search: BeamState | None = None
        self.open: list[GenerationRequest] = []
        self.chance: list[list[torch.Generator]] = []  # [request][group]
        self.trees: dict[int, list[BeamStep]] = {}

    @property
    def requests(self) -> int:
        return len(self.open)

    def begin(self, requests: Sequence[GenerationRequest], device: torch.device) -> None:
        self.stops.begin(requests)
        search = BeamState(self.config, [request.limit for request in requests], device)
        rows = [request for request in requests for _ in range(self.width)]
        history = SequenceState.of([r.prompt for r in rows], [r.limit for r in rows], device)
        if self.search is None or self.history is None or not self.open:
            self.search, self.history = search, history
        else:
            self.search.join(search)
            self.history.join(history)
        self.open = [*self.open, *requests]
        groups, seed = self.config.num_beam_groups, self.config.seed
        self.chance += [[generator_of(seed, 0) for _ in range(groups)] for _ in requests]
        self.trees |= {request.number: [] for request in requests}

    def advance(self, logits: Tensor) -> tuple[StepChoice, StepOutput]:
        assert self.history is not None and self.search is not None
        search = self.search
        log = logits.log_softmax(-1, dtype=torch.float32)
        scores = processed(self.processors, self.history, log, spoil=True)
        if self.config.do_sample:
            scores = shaped(scores, self.config, keep=len(self.config.eos_token_id) + 1)
        beam, token = search.step(scores, log, self)
        first = torch.arange(len(beam), device=beam.device)[:, None] * self.width
        parents, tokens = (first + beam).flatten(), token.flatten()
        if self.processors:
            self.history.select(parents)
            self.history.append(tokens, tokens)  # log-probabilities are not used here
        over, news = search.over.all(1), StepOutput()
        if bool(search.over.any()):
            search.check_texts([request.number for request in self.open])
        if bool(over.any()):
            news.finished = self.leave(over)
            stay = ~over
            search.select(stay)
            rows = stay.repeat_interleave(self.width)
            self.history.select(rows) if self.processors else None
            parents, tokens = parents[rows], tokens[rows]
        return StepChoice(parents, tokens), news

    # --- callbacks of the search ---------------------------------------------------------------

    def find(self, search: BeamState, scores: Tensor, g: int) -> Found:
        if not self.config.do_sample:
            return self.stopped(search.best(scores, g))
        count = scores.shape[1] * scores.shape[2]
        noise = torch.stack([torch.rand(count, generator=row[g]) for row in self.chance])
        return self.stopped(search.drawn(scores, g, noise.to(scores.device)))

    def keeps(self, found: Found, worthy: Tensor) -> Tensor | None:
        return worthy if bool(worthy.any()) else None

    def saw(self, found: Found, g: int) -> None:
        if not self.config.tree:
            return
        beams = self.config.num_beams // self.config.num_beam_groups
        rows = zip(self.open, listed(found), found.ends.tolist(), strict=True)
        for request, candidates, ends in rows:
            ended = [c for c, end in zip(candidates, ends, strict=False) if end]
            going = [c for c, end in zip(candidates, ends, strict=False) if not end]
            if self.ranked:
                going.sort(key=lambda candidate: -candidate.score)
            self.trees[request.number].append(BeamStep(going[:beams], ended, going[beams:]))

    # --- requests ------------------------------------------------------------------------------

    def stopped(self, found: Found) -> Found:
        """Adds the stopping criteria that run on the host: strings and time."""
        if not self.asks_host:
            return found
        ends = found.ends.tolist()
        for row, candidates in enumerate(listed(found)):
            for place, (beam, token, _) in enumerate(candidates):
                text = [*self.text(row, beam), token]
                reason = self.stops.reason(token, len(text), self.open[row], lambda t=text: t)  # type: ignore[misc]
                ends[row][place] = REASONS.index(reason or "")
        return found._replace(ends=torch.tensor(ends, device=found.ends.device))

    def text(self, row: int, beam: int) -> list[int]:
        """Returns the tokens that a beam has generated so far."""
        assert self.search is not None
        ids: list[int] = self.search.tokens[row, beam, : int(self.search.made[row])].tolist()
        return ids

    def leave(self, over: Tensor) -> list[FinishedSequence]:
        """Removes finished requests and returns their sequences."""
        assert self.search is not None
        gone = over.tolist()
        rows = [row for row, ended in enumerate(gone) if ended]
        finished = results(self.search, rows, [self.open[row] for row in rows])
        for one in finished if self.config.tree else ():
            one.tree = self.trees[one.request]
        self.open = [r for r, ended in zip(self.open, gone, strict=True) if not ended]
        self.chance = [c for c, ended in zip(self.chance, gone, strict=True) if not ended]
        return finished


def listed(found: Found) -> list[list[BeamCandidate]]:
    """Returns the candidates of each request, without the impossible ones."""
    rows = zip(found.beam.tolist(), found.token.tolist(), found.score.tolist(), strict=True)
    return [
        [BeamCandidate(*one) for one in zip(*row, strict=True) if one[2] > IMPOSSIBLE]
        for row in rows
    ]


def results(
    search: BeamState, rows: Sequence[int], requests: Sequence[GenerationRequest]
) -> list[FinishedSequence]:
    """Returns the best sequences of the requests, which occupy the given rows."""
    return [
        FinishedSequence(request.number, place, text.tokens, text.logprobs, text.stop, text.score)
        for request, texts in zip(requests, search.texts(rows), strict=True)
        for place, text in enumerate(texts)
    ]
