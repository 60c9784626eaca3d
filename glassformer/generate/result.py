"""What a request gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from glassformer.generate.beam import BeamStep


@dataclass
class GenerationOutput:
    """One request's result. `tokens` are the new ids, `logprobs` what the model itself gave each;
    `stop` says why it ended: "eos", "length", "string" or "time"."""

    text: str
    tokens: list[int]
    logprobs: list[float]
    stop: str
    score: float | None = None  # of a beam search: the sum of log-probabilities over length^penalty
    alternatives: list[GenerationOutput] = field(default_factory=list)
    tree: list[BeamStep] | None = None
    spans: list[str] | None = None  # of an infilling: what stands in the gaps

    def __str__(self) -> str:
        return self.text

    def record(self) -> dict[str, Any]:
        """The same as JSON has it; `score`, `spans` and `tree` only where there are some."""
        said: dict[str, Any] = {
            "text": self.text,
            "tokens": self.tokens,
            "logprobs": self.logprobs,
            "stop": self.stop,
        }
        said |= {k: v for k in ("score", "spans") if (v := getattr(self, k)) is not None}
        said["alternatives"] = [
            {k: v for k, v in other.record().items() if k not in ("alternatives", "tree")}
            for other in self.alternatives
        ]
        if self.tree is not None:
            said["tree"] = [
                {part: [one._asdict() for one in found] for part, found in vars(step).items()}
                for step in self.tree
            ]
        return said


@dataclass(frozen=True)
class GenerationChunk:
    """What a stream yields: a token, and the text that it completed (often a word, or nothing)."""

    text: str
    token: int
    logprob: float


class GenerationInterrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of a list of prompts: `finished` has the results that were whole, by
    the number of their prompt."""

    def __init__(self, finished: dict[int, GenerationOutput]) -> None:
        super().__init__(f"interrupted; {len(finished)} texts were finished")
        self.finished = finished
