"""Probabilities of tokens at mask positions, independently and jointly.

Jointly, the masks are filled one after the other, always the one next that the model is most
certain of, and each token is scored with those before it in place: the product is the joint
probability.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.tasks.batching import collate
from glassformer.tasks.heads import require_head
from glassformer.tasks.model_protocol import TaskModel
from glassformer.text import TextEncoding

ROWS = 32  # rows per forward pass


class Guess(NamedTuple):
    """Tokens for masks, the log-probability of each, and the total of all jointly filled masks."""

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
    """The token ids and segments of a text."""

    ids: Sequence[int]
    segments: Sequence[int]


class FillState(NamedTuple):
    """A partially filled text.

    `open` are the positions still masked; `filled` maps positions to (token, log-probability).
    """

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
    """Returns the `top` tokens for every mask of every text, with all masks open."""
    at = inputs["input_ids"].eq(mask)
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
    """Finds the most probable tokens for these positions jointly, by beam search.

    Other masks stay masked.
    """
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
    """Scores the tokens that the rows have at these positions."""
    wanted = [row.ids for row in rows]
    states = []
    for row, own in zip(rows, places, strict=True):
        hidden = [mask if i in own else id for i, id in enumerate(row.ids)]
        states.append(FillState(MaskedRow(hidden, row.segments), tuple(own), {}))
    going = [i for i, state in enumerate(states) if state.open]
    while going:
        found = list(surest(model, [states[i] for i in going]))
        for i, (state, place, logprobs) in zip(going, found, strict=True):
            token = wanted[i][place]
            states[i] = state.put(place, token, float(logprobs[token]))
        going = [i for i in going if states[i].open]
    return [state.guess() for state in states]


def surest(
    model: TaskModel, states: Sequence[FillState]
) -> Iterator[tuple[FillState, int, Tensor]]:
    """Yields, for each text, the most certain open position and its log-probabilities, [word]."""
    for start in range(0, len(states), ROWS):
        own = states[start : start + ROWS]
        with torch.inference_mode():
            inputs = collate(model, [_encoded(state.row) for state in own], model.device)
            at = torch.zeros_like(inputs["input_ids"], dtype=torch.bool)
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
    """Returns log-probabilities at the positions of `at`, [position, word].

    Only these are computed, because the vocabulary is large.
    """
    hidden: Tensor = model(**inputs, heads=()).last_hidden_state[at]
    head = require_head(model, "lm", "fill").name
    logits: Tensor = model.heads[head](hidden, None)
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
