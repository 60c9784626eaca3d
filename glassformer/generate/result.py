"""Results of generation requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from glassformer.generate.beam import BeamStep

OF_ALL = ("alternatives", "tree", "unknown_ratio")  # what a record has once


@dataclass
class GenerationOutput:
    """Result of one generation request.

    Attributes:
        text: The generated text.
        tokens: Token ids of the generated text.
        logprobs: Log-probability of each token under the model itself, before any setting applies.
        finish_reason: Why generation ended: "eos", "length", "string" or "time".
        score: For beam search, the sum of log-probabilities divided by length^length_penalty.
        alternatives: The further sequences if `num_return_sequences` is above 1.
        tree: For beam search with `tree=True`, the candidates of each step.
        spans: For infilling, the text of each gap.
        unknown_ratio: The share of the prompt's text that the vocabulary does not know.
    """

    text: str
    tokens: list[int]
    logprobs: list[float]
    finish_reason: str
    score: float | None = None
    alternatives: list[GenerationOutput] = field(default_factory=list)
    tree: list[BeamStep] | None = None
    spans: list[str] | None = None
    unknown_ratio: float = 0.0

    def __str__(self) -> str:
        return self.text

    def record(self) -> dict[str, Any]:
        """Returns the result as a dict for JSON; `score`, `spans` and `tree` only if present."""
        record: dict[str, Any] = {
            "text": self.text,
            "tokens": self.tokens,
            "logprobs": self.logprobs,
            "finish_reason": self.finish_reason,
        }
        record |= {k: v for k in ("score", "spans") if (v := getattr(self, k)) is not None}
        record["alternatives"] = [
            {k: v for k, v in other.record().items() if k not in OF_ALL}
            for other in self.alternatives
        ]
        record["unknown_ratio"] = self.unknown_ratio
        if self.tree is not None:
            record["tree"] = [
                {part: [one._asdict() for one in found] for part, found in vars(step).items()}
                for step in self.tree
            ]
        return record


@dataclass(frozen=True)
class GenerationChunk:
    """Item of a stream: a token, and the text that it completes (often a word, possibly empty)."""

    text: str
    token: int
    logprob: float


class GenerationInterrupted(KeyboardInterrupt):
    """Raised on Ctrl-C while several prompts are processed.

    `finished` maps the index of each completed prompt to its result.
    """

    def __init__(self, finished: dict[int, GenerationOutput]) -> None:
        super().__init__(f"interrupted; {len(finished)} texts were finished")
        self.finished = finished
