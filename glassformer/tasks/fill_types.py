"""The results of `fill`: candidates for each gap, and fillings of all gaps."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class FillCandidate:
    """A candidate for a gap.

    `probability` is that of its tokens; `score` is their geometric mean, by which candidates of
    different lengths are ranked.
    """

    text: str
    probability: float
    score: float
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Gap:
    """The position of a gap in the text, and its candidates while all other gaps are open."""

    start: int
    end: int
    candidates: tuple[FillCandidate, ...]


@dataclass(frozen=True)
class GapFilling:
    """The text with all gaps filled, the words in the gaps, and their joint probability."""

    text: str
    words: tuple[str, ...]
    probability: float | None


@dataclass(frozen=True)
class Filled:
    """The result for a text; `text` is that of the best filling.

    An encoder-decoder gives fillings only, no candidates per gap. `unknown_ratio` is the share of
    the text that the vocabulary does not know.
    """

    text: str
    gaps: tuple[Gap, ...]
    fillings: tuple[GapFilling, ...]
    unknown_ratio: float = 0.0

    def record(self) -> dict[str, Any]:
        return asdict(self)
