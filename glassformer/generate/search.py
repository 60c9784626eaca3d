"""Batched beam search over tensors of fixed shape, so that a GPU can replay a recorded step.

Scores are sums of log-probabilities. A request has `groups` groups of `beams` beams that search in
parallel; finished sequences are kept separately, the best of each group first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from glassformer.generate.config import GenerationConfig
from glassformer.generate.strategy import NoTokenLeftError

NEVER = -1e9
IMPOSSIBLE = float("-inf")
REASONS = ("", "eos", "string", "length", "time")  # indexed by the code in `Found.ends`
EOS, STRING, LENGTH, TIME = 1, 2, 3, 4
PART = 128  # tokens of a large vocabulary that are compared together


class Found(NamedTuple):
    """Best candidates, each tensor [request, candidate].

    `beam` is the index within the request. Impossible candidates come last and have the score -inf.
    """

    beam: Tensor
    token: Tensor
    score: Tensor
    ends: Tensor  # code of the stop reason; 0 where the sequence continues


class Text(NamedTuple):
    """Finished sequence."""

    score: float
    tokens: list[int]
    logprobs: list[float]
    stop: str


class Guide(Protocol):
    """Callbacks of a search step, which can observe or constrain it."""

    ranked: bool  # whether beams continue in the order of their scores, not of `Found`

    def find(self, search: BeamState, scores: Tensor, g: int) -> Found: ...

    def keeps(self, found: Found, worthy: Tensor) -> Tensor | None:
        """Returns which finished sequences to keep, [request, beam]; None for none."""
        ...

    def saw(self, found: Found, g: int) -> None: ...


class Alone:
    """Default callbacks, which need no synchronization between device and host."""

    ranked = True

    def find(self, search: BeamState, scores: Tensor, g: int) -> Found:
        return search.best(scores, g)

    def keeps(self, found: Found, worthy: Tensor) -> Tensor | None:
        return worthy

    def saw(self, found: Found, g: int) -> None: ...


class BeamState:
    """State of the beam searches of a batch.

    Tensors change in place, so that a CUDA graph finds them at the same address.
    """

    def __init__(
        self,
        config: GenerationConfig,
        limits: Sequence[int],
        device: torch.device,
        room: int | None = None,
    ) -> None:
        self.config = config
        self.groups, self.width = config.num_beam_groups, config.num_beams
        self.beams = self.width // self.groups  # per group
        self.candidates = max(2, 1 + len(config.eos_token_id)) * self.beams
        self.eos = torch.tensor(config.eos_token_id, dtype=torch.long, device=device)
        rows, room = len(limits), room or max(limits)
        beams, ended = (rows, self.width), (rows, self.groups, self.beams)
        whole = {"dtype": torch.long, "device": device}
        self.scores = torch.full(beams, NEVER, device=device)
        self.scores[:, :: self.beams] = 0.0  # beams are identical at first: use one per group
        self.tokens = torch.zeros(*beams, room, **whole)  # type: ignore[call-overload]
        self.logprobs = torch.zeros(*beams, room, device=device)
        self.limit = torch.tensor(limits, **whole)  # type: ignore[arg-type]
        self.made = torch.zeros_like(self.limit)
        self.over = torch.zeros(rows, self.groups, dtype=torch.bool, device=device)
        # finished sequences
        self.end_score = torch.full(ended, IMPOSSIBLE, dtype=torch.double, device=device)
        self.end_tokens = torch.zeros(*ended, room, **whole)  # type: ignore[call-overload]
        self.end_logprobs = torch.zeros(*ended, room, device=device)
        self.end_length = torch.zeros(ended, **whole)  # type: ignore[call-overload]
        self.end_reason = torch.zeros(ended, **whole)  # type: ignore[call-overload]

    @property
    def state(self) -> dict[str, Tensor]:
        """All tensors with one entry per request."""
        return {n: x for n, x in vars(self).items() if isinstance(x, Tensor) and n != "eos"}

    def texts(self, rows: Sequence[int]) -> list[list[Text]]:
        """Returns the finished sequences of requests, the best of all groups first."""
        at = torch.tensor(rows, device=self.limit.device)
        held = (self.end_score, self.end_length, self.end_tokens, self.end_logprobs)
        parts = [x[at].flatten(1, 2) for x in (*held, self.end_reason)]
        order = parts[0].argsort(dim=1, descending=True, stable=True)
        order = order[:, : self.config.num_return_sequences]
        lists = [_of(part, order).tolist() for part in parts]
        return [
            [
                Text(score, tokens[:length], logprobs[:length], REASONS[reason])
                for score, length, tokens, logprobs, reason in zip(*row, strict=True)
                if score > IMPOSSIBLE
            ]
            for row in zip(*lists, strict=True)
        ]

    def check_texts(self, numbers: Sequence[int]) -> None:
        """Raises `NoTokenLeftError` if a group ended without a finished sequence.

        The requests with these numbers are in the first rows.
        """
        nothing = self.over & (self.end_score[..., 0] == IMPOSSIBLE)
        for row in nothing[: len(numbers)].any(1).nonzero()[:1, 0].tolist():
            made = int(self.made[row]) - (not bool(self.over[row].all()))
            raise NoTokenLeftError(self.config, numbers[row], made)

    def select(self, rows: Tensor) -> None:
        for name, x in self.state.items():
            setattr(self, name, x[rows])

    def join(self, other: BeamState) -> None:
        """Appends the requests of another state below these."""
        room = max(self.tokens.shape[-1], other.tokens.shape[-1])
        for name, x in self.state.items():
            pair = [x, getattr(other, name)]
            if name.endswith(("tokens", "logprobs")):
                pair = [torch.nn.functional.pad(y, (0, room - y.shape[-1])) for y in pair]
            setattr(self, name, torch.cat(pair))

    def lay(self, other: BeamState) -> None:
        """Copies other requests into the first rows and marks the rest as finished."""
        rows, room = len(other.limit), other.tokens.shape[-1]
        for name, x in self.state.items():
            part = x[:rows]
            (part[..., :room] if name.endswith(("tokens", "logprobs")) else part).copy_(
                getattr(other, name)
            )
        self.over[rows:] = True

    # --- one step, group by group --------------------------------------------------------------

    def step(self, scores: Tensor, log: Tensor, guide: Guide) -> tuple[Tensor, Tensor]:
        """Chooses the beams of each request that continue, and their tokens, [request, beam].

        `log` are the model's log-probabilities, [row, token], and `scores` those after the
        processors. Groups choose one after the other, and are penalized for tokens of earlier
        groups.
        """
        every = scores.view(len(self.limit), self.width, -1)
        chosen: list[tuple[Tensor, Tensor, Tensor]] = []
        for g in range(self.groups):
            part = every[:, g * self.beams : (g + 1) * self.beams]
            if g and self.config.diversity_penalty:
                said = torch.cat([token for _, token, _ in chosen], 1)
                times = torch.zeros_like(part[:, 0]).scatter_add(
                    1, said, torch.ones_like(said).to(part)
                )
                part = part - self.config.diversity_penalty * times[:, None]
            found = guide.find(self, part, g)
            worthy = guide.keeps(found, self.worthy(found, g))
            if worthy is not None:
                self.keep(found, worthy, log, g)
            guide.saw(found, g)
            chosen.append(self.go_on(found, g, guide.ranked))
        beam, token, score = (torch.cat(parts, 1) for parts in zip(*chosen, strict=True))
        self.write(beam, token, score, log)
        return beam, token

    def best(self, scores: Tensor, g: int) -> Found:
        """Returns the best candidates of a group from [request, beam, token]."""
        first, (rows, beams, size) = g * self.beams, scores.shape
        values, tokens = top(scores.flatten(0, 1), min(self.candidates, size))
        count = values.shape[1]
        before = self.scores[:, first : first + beams]
        whole = values.view(rows, beams, count) + before[..., None]
        score, place = whole.flatten(1).topk(min(self.candidates, beams * count))
        token = tokens.view(rows, -1).gather(1, place)
        return self.judged(first + place // count, token, score)

    def drawn(self, scores: Tensor, g: int, noise: Tensor) -> Found:
        """Draws candidates without replacement, by uniform noise of [request, beam * token]."""
        first, size = g * self.beams, scores.shape[-1]
        flat = (scores + self.scores[:, first : first + self.beams, None]).flatten(1)
        count = min(self.candidates, flat.shape[1])
        place = (flat - (-noise.log()).log()).topk(count).indices  # Gumbel trick
        return self.judged(first + place // size, place % size, flat.gather(1, place))

    def judged(self, beam: Tensor, token: Tensor, score: Tensor) -> Found:
        at_eos = (token[..., None] == self.eos).any(-1)
        at_limit = (self.made + 1 >= self.limit)[:, None]
        ends = torch.where(at_eos, EOS, torch.where(at_limit, LENGTH, 0))
        return Found(beam, token, score, ends)

    def worthy(self, found: Found, g: int) -> Tensor:
        """Returns which candidates are finished sequences to keep, [request, beam].

        They must be among the first `beams` candidates.
        """
        ended = (found.ends > 0) & (found.score > IMPOSSIBLE) & ~self.over[:, g, None]
        return ended[:, : self.beams]

    def keep(self, found: Found, worthy: Tensor, log: Tensor, g: int) -> None:
        """Adds finished sequences and keeps only the best of each group."""
        beams, count = self.beams, min(self.beams, found.token.shape[1])
        one = [part[:, :count] for part in found]
        beam, token, score, ends = one
        made = (self.made + 1)[:, None]
        score = score.double() / made.double() ** self.config.length_penalty
        at = self.made.clamp(max=self.tokens.shape[-1] - 1)[:, None, None].expand(-1, count, 1)
        tokens = _of(self.tokens, beam).scatter(2, at, token[..., None])
        value = logprobs_of(log, beam, token)
        logprobs = _of(self.logprobs, beam).scatter(2, at, value[..., None])
        score = torch.where(worthy, score, IMPOSSIBLE)
        both = torch.cat((self.end_score[:, g], score), 1)
        ordered, order = both.sort(dim=1, descending=True, stable=True)
        order = order[:, :beams]
        for held, new in (
            (self.end_tokens, tokens),
            (self.end_logprobs, logprobs),
            (self.end_length, made.expand(-1, count)),
            (self.end_reason, ends),
        ):
            held[:, g] = _of(torch.cat((held[:, g], new), 1), order)
        self.end_score[:, g] = ordered[:, :beams]

    def go_on(self, found: Found, g: int, ranked: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the beams, tokens and scores that a group continues with, [request, beam]."""
        going = (found.ends == 0) & (found.score > IMPOSSIBLE)
        places = torch.arange(going.shape[1], device=going.device)
        by = found.score if ranked else -places.to(found.score).expand_as(found.score)
        order = torch.where(going, by, IMPOSSIBLE).sort(dim=1, descending=True, stable=True).indices
        count = going.sum(1, keepdim=True)
        order = torch.where(count > 0, order, 0)
        turn = torch.arange(self.beams, device=going.device).expand(len(order), -1)
        at = order.gather(1, torch.minimum(turn, (count - 1).clamp(min=0)))
        score = found.score.gather(1, at)
        self.conclude(torch.where(turn < count, score, IMPOSSIBLE).amax(1), count[:, 0], g)
        score = torch.where(turn < count.clamp(min=1), score, NEVER)
        return found.beam.gather(1, at), found.token.gather(1, at), score

    def conclude(self, best: Tensor, going: Tensor, g: int) -> None:
        config, penalty = self.config, self.config.length_penalty
        worst = self.end_score[:, g, -1]
        full = worst > IMPOSSIBLE
        patient = config.early_stopping == "never" and penalty > 0
        length = self.limit if patient else self.made + 1
        hopeless = full & ~(best.double() / length.double() ** penalty > worst)
        if config.early_stopping is True:
            hopeless = full
        self.over[:, g] |= hopeless | (going == 0)

    def write(self, beam: Tensor, token: Tensor, score: Tensor, log: Tensor) -> None:
        """Makes all beams of [request, beam] continue their parents."""
        at = self.made.clamp(max=self.tokens.shape[-1] - 1)[:, None, None].expand(-1, self.width, 1)
        value = logprobs_of(log, beam, token)
        self.tokens.copy_(_of(self.tokens, beam).scatter(2, at, token[..., None]))
        self.logprobs.copy_(_of(self.logprobs, beam).scatter(2, at, value[..., None]))
        self.scores.copy_(score)
        self.made += ~self.over.all(1)


def top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Top-k over [row, token]; of a large vocabulary, sorts only the parts with high scores."""
    size = scores.shape[1]
    parts = size // PART
    if parts < 4 * count:
        values, tokens = scores.topk(count)
        return values, tokens
    inside = scores[:, : parts * PART].view(len(scores), parts, PART)
    which = inside.amax(-1).topk(count).indices  # [row, part]
    near = inside.gather(1, which[..., None].expand(-1, -1, PART)).flatten(1)
    values, at = torch.cat((near, scores[:, parts * PART :]), 1).topk(count)
    part = which.gather(1, (at // PART).clamp(max=count - 1))
    rest = at - count * PART + parts * PART
    return values, torch.where(at < count * PART, part * PART + at % PART, rest)


def logprobs_of(log: Tensor, beam: Tensor, token: Tensor) -> Tensor:
    """Gathers values of [row, token] at [request, candidate]."""
    size = log.shape[1]
    return log.view(len(beam), -1).gather(1, beam * size + token)


def _of(x: Tensor, place: Tensor) -> Tensor:
    """Gathers entries at [request, place] from [request, beam, ...]."""
    return x.gather(1, place.view(*place.shape, *[1] * (x.ndim - 2)).expand(-1, -1, *x.shape[2:]))
