"""How probable tokens are in the places of masks, one by one and together.

Together, the masks are filled one after the other, always the one next that the model is most sure
of, and each word is judged with those before it in place: the product is the probability of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.tasks.batching import collate, device_of
from glassformer.tasks.model_protocol import TaskModel, require_head
from glassformer.text import TextEncoding

ROWS = 32  # that are computed at a time


class Guess(NamedTuple):
    """Tokens for masks, the log-probability of each, and of all that was filled together."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    total: float

    @property
    def logprob(self) -> float:
        return sum(self.logprobs)

    @property
    def score(self) -> float:
        return self.logprob / len(self.tokens)


class MaskedRow(NamedTuple):
    """A text as the net reads it."""

    ids: Sequence[int]
    segments: Sequence[int]


class FillState(NamedTuple):
    """A text in which some masks are filled, by place, with the log-probability of each."""

    row: MaskedRow
    open: tuple[int, ...]
    filled: dict[int, tuple[int, float]]

    @property
    def total(self) -> float:
        return sum(logprob for _, logprob in self.filled.values())

    def put(self, place: int, token: int, logprob: float) -> FillState:
        ids = [*self.row.ids]
        ids[place] = token
        rest = tuple(other for other in self.open if other != place)
        return FillState(
            MaskedRow(ids, self.row.segments), rest, {**self.filled, place: (token, logprob)}
        )

    def guess(self) -> Guess:
        tokens, logprobs = zip(*(self.filled[place] for place in sorted(self.filled)), strict=True)
        return Guess(tokens, logprobs, self.total)


def first_guesses(
    model: TaskModel,
    inputs: dict[str, Tensor],
    texts: Sequence[TextEncoding],
    mask: int,
    top: int,
    banned: Sequence[int],
) -> list[list[list[Guess]]]:
    """For every mask of every text so many tokens, while all masks are open."""
    at = inputs["tokens"].eq(mask)
    found = logprobs_at(model, inputs, at)
    found[:, list(banned)] = float("-inf")
    best = found.topk(min(top, found.shape[-1] - len(banned)), -1)
    guesses = [
        [Guess((token,), (logprob,), logprob) for logprob, token in zip(*pair, strict=True)]
        for pair in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]
    counts = at.sum(-1).tolist()
    starts = [sum(counts[:i]) for i in range(len(counts))]
    return [guesses[start : start + n] for start, n in zip(starts, counts, strict=True)]


def beam_search(
    model: TaskModel,
    row: MaskedRow,
    places: Sequence[Sequence[int]],
    beam: int,
    banned: Sequence[int],
) -> list[Guess]:
    """The most probable tokens for these places together, as far as so many ways at a time find
    them. What else is masked stays so."""
    every = tuple(place for gap in places for place in gap)
    states = [FillState(row, every, {})]
    for _ in every:
        grown: dict[tuple[tuple[int, int], ...], FillState] = {}
        for state, place, logprobs in surest(model, states):
            logprobs[list(banned)] = float("-inf")
            best = logprobs.topk(min(beam, len(logprobs) - len(banned)))
            for logprob, token in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                new = state.put(place, token, logprob)
                key = tuple(sorted((at, token) for at, (token, _) in new.filled.items()))
                if key not in grown or new.total > grown[key].total:
                    grown[key] = new
        states = sorted(grown.values(), key=lambda state: -state.total)[:beam]
    return [state.guess() for state in states]


def likelihood(
    model: TaskModel, rows: Sequence[MaskedRow], places: Sequence[Sequence[int]], mask: int
) -> list[Guess]:
    """How probable the tokens are that stand in these places."""
    wanted = [row.ids for row in rows]
    states = []
    for row, own in zip(rows, places, strict=True):
        hidden = [mask if i in own else id for i, id in enumerate(row.ids)]
        states.append(FillState(MaskedRow(hidden, row.segments), tuple(own), {}))
    going = [i for i, state in enumerate(states) if state.open]
    while going:
        said = list(surest(model, [states[i] for i in going]))
        for i, (state, place, logprobs) in zip(going, said, strict=True):
            token = wanted[i][place]
            states[i] = state.put(place, token, float(logprobs[token]))
        going = [i for i in going if states[i].open]
    return [state.guess() for state in states]


def surest(
    model: TaskModel, states: Sequence[FillState]
) -> Iterator[tuple[FillState, int, Tensor]]:
    """For each text the open place that the model is surest of, and what it says there: [word]."""
    for start in range(0, len(states), ROWS):
        own = states[start : start + ROWS]
        with torch.inference_mode():
            inputs = collate(model, [_encoded(state.row) for state in own], device_of(model.net))
            at = torch.zeros_like(inputs["tokens"], dtype=torch.bool)
            for number, state in enumerate(own):
                at[number, list(state.open)] = True
            found = logprobs_at(model, inputs, at)
        first = 0
        for state in own:
            logprobs = found[first : first + len(state.open)]
            first += len(state.open)
            best = int(logprobs.amax(-1).argmax())
            yield state, sorted(state.open)[best], logprobs[best].clone()


def logprobs_at(model: TaskModel, inputs: dict[str, Tensor], at: Tensor) -> Tensor:
    """[place, word]; only where they are asked for, since a vocabulary is wide."""
    hidden: Tensor = model.net(**inputs, heads=()).hidden[at]
    head = require_head(model, "lm", "fill").name
    logits: Tensor = model.net.heads[head](hidden, None)
    return logits.float().log_softmax(-1)


def _encoded(row: MaskedRow) -> TextEncoding:
    size = len(row.ids)
    return TextEncoding(
        ids=list(row.ids),
        tokens=[""] * size,
        segments=list(row.segments),
        offsets=[(0, 0)] * size,
        sequence=[None] * size,
        special_mask=[False] * size,
        words=[None] * size,
    )
