"""Constrained beam search whose texts contain the required phrases.

Beams are sorted into banks by how many phrase tokens they contain, and the banks take turns
(dynamic beam allocation, Post and Vilar, 2018). Beams that contain many of the phrases thus survive
beside more probable ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.generate.beam import BeamCandidate, BeamSearch
from glassformer.generate.config import GenerationConfig, Phrase
from glassformer.generate.processors import Processor
from glassformer.generate.search import IMPOSSIBLE, NEVER, BeamState, Found
from glassformer.generate.stops import StoppingCriteria
from glassformer.generate.strategy import GenerationRequest


@dataclass(frozen=True)
class Progress:
    """How much of the required phrases a text contains."""

    met: int  # phrase tokens that the text contains
    missing: int  # minimum number of tokens still required
    wanted: frozenset[int]  # tokens that would make progress


@lru_cache(maxsize=65536)
def progress(phrases: tuple[Phrase, ...], tokens: tuple[int, ...]) -> Progress:
    """Returns how much of the phrases a text contains."""
    open_, met = list(range(len(phrases))), 0
    inside: tuple[int, ...] = ()
    for token in tokens:
        inside = _longer(phrases, open_, (*inside, token)) or _longer(phrases, open_, (token,))
        for number in open_:
            if inside and inside in phrases[number]:
                open_.remove(number)
                met += len(inside)
                inside = ()
                break
    ways = [way for number in open_ for way in phrases[number]]
    begun = [way for way in ways if inside and way[: len(inside)] == inside]
    wanted = {way[len(inside)] for way in begun} or {way[0] for way in ways}
    missing = sum(min(map(len, phrases[number])) for number in open_)
    if begun:
        of = [n for n in open_ if any(way in phrases[n] for way in begun)]
        left = min(len(way) for way in begun) - len(inside)
        missing += left - max(min(map(len, phrases[n])) for n in of)
    return Progress(met + len(inside), missing, frozenset(wanted if open_ else ()))


def _longer(
    phrases: tuple[Phrase, ...], open_: Sequence[int], inside: tuple[int, ...]
) -> tuple[int, ...]:
    """Returns the tokens if a phrase not yet complete begins with them, else ()."""
    ways = (way for number in open_ for way in phrases[number])
    return inside if any(way[: len(inside)] == inside for way in ways) else ()


class PhraseBeam(BeamSearch):
    """Beam search with dynamic beam allocation for the required phrases."""

    ranked = False  # candidates are already ordered by turns

    def __init__(
        self, config: GenerationConfig, processors: list[Processor], stops: StoppingCriteria
    ) -> None:
        super().__init__(config, processors, stops)
        self.phrases = config.force_words_ids

    def begin(self, requests: Sequence[GenerationRequest], device: torch.device) -> None:
        needed = progress(self.phrases, ()).missing
        for request in requests:
            if request.limit < needed:
                raise ConfigError(
                    f"The phrases in force_words_ids have {needed} tokens, and only "
                    f"{request.limit} may be written; raise max_new_tokens."
                )
        super().begin(requests, device)

    def find(self, search: BeamState, scores: Tensor, g: int) -> Found:
        whole = scores + search.scores[..., None]
        rows = [self._of_request(search, row, part) for row, part in enumerate(whole)]
        longest = max(1, *map(len, rows))
        none = BeamCandidate(0, 0, IMPOSSIBLE)
        filled = [row + [none] * (longest - len(row)) for row in rows]
        beam, token, score = (
            torch.tensor([[one[i] for one in row] for row in filled], device=scores.device)
            for i in range(3)
        )
        return self.stopped(search.judged(beam, token, score))

    def _of_request(self, search: BeamState, row: int, scores: Tensor) -> list[BeamCandidate]:
        """Returns the best candidates from scores of [beam, token], taking turns between banks."""
        size = scores.shape[1]
        for way in (way for phrase in self.phrases for way in phrase):
            if max(way) >= size:
                raise ConfigError(
                    f"force_words_ids has the token {max(way)}, and the model's end at {size - 1}."
                )
        texts = [tuple(self.text(row, beam)) for beam in range(self.width)]
        left = self.open[row].limit - len(texts[0])
        states = [progress(self.phrases, text) for text in texts]
        ends = list(self.config.eos_token_id)
        scores = scores.clone()
        for beam, state in enumerate(states):
            if state.wanted:
                scores[beam, ends] = NEVER
            if state.missing >= left:  # only phrase tokens still fit
                others = torch.ones(size, dtype=torch.bool, device=scores.device)
                others[list(state.wanted)] = False
                scores[beam, others] = NEVER
        values, places = scores.flatten().topk(min(search.candidates, scores.numel()))
        found = {
            (place // size, place % size): value
            for place, value in zip(places.tolist(), values.tolist(), strict=True)
        }
        for beam, state in enumerate(states):
            for token in state.wanted:
                found.setdefault((beam, token), float(scores[beam, token]))
        return self._by_turns(
            texts,
            [BeamCandidate(b, t, score) for (b, t), score in found.items() if score > NEVER / 2],
        )

    def _by_turns(
        self, texts: list[tuple[int, ...]], found: list[BeamCandidate]
    ) -> list[BeamCandidate]:
        banks: dict[int, list[BeamCandidate]] = {}
        for candidate in sorted(found, key=lambda c: -c.score):
            text = (*texts[candidate.beam], candidate.token)
            banks.setdefault(progress(self.phrases, text).met, []).append(candidate)
        turns = [banks[met] for met in sorted(banks, reverse=True)]
        longest = max(map(len, turns), default=0)
        return [bank[i] for i in range(longest) for bank in turns if i < len(bank)]

    def keeps(self, found: Found, worthy: Tensor) -> Tensor | None:
        """Keeps only texts that contain all phrases."""
        beams, tokens = found.beam.tolist(), found.token.tolist()
        worthy = worthy.clone()
        for row, place in worthy.nonzero().tolist():
            text = (*self.text(row, beams[row][place]), tokens[row][place])
            worthy[row, place] = not progress(self.phrases, text).wanted
        return super().keeps(found, worthy)
