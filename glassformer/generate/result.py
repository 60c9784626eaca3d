"""Generate room, results: what a request gives."""

from __future__ import annotations

from dataclasses import dataclass, field

from glassformer.generate.beam import Step


@dataclass
class Generation:
    """One request's result. `tokens` are the new ids, `logprobs` what the model itself gave each;
    `stop` says why it ended: "eos", "length", "string" or "time"."""

    text: str
    tokens: list[int]
    logprobs: list[float]
    stop: str
    score: float | None = None  # of a beam search: the sum of log-probabilities over length^penalty
    alternatives: list[Generation] = field(default_factory=list)
    tree: list[Step] | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Piece:
    """What a stream yields: a token, and the text that it completed (often a word, or nothing)."""

    text: str
    token: int
    logprob: float


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of a list of prompts: `finished` has the results that were whole, by
    the number of their prompt."""

    def __init__(self, finished: dict[int, Generation]) -> None:
        super().__init__(f"interrupted; {len(finished)} texts were finished")
        self.finished = finished
