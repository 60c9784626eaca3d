"""Tasks room, what `fill` gives: candidates for every gap, and fillings of all of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class FillCandidate:
    """What could stand in a gap: its tokens' probability, and what that is a token (the geometric
    mean), by which candidates of several lengths are ranked."""

    text: str
    probability: float
    score: float
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Gap:
    """Where it stands in the text, and what could stand there while all other gaps are open."""

    start: int
    end: int
    candidates: tuple[FillCandidate, ...]


@dataclass(frozen=True)
class GapFilling:
    """The whole text without gaps, what stands in each, and how probable that is together."""

    text: str
    words: tuple[str, ...]
    probability: float | None


@dataclass(frozen=True)
class Filled:
    """`text` is the best filling's; an encoder-decoder gives fillings alone."""

    text: str
    gaps: tuple[Gap, ...]
    fillings: tuple[GapFilling, ...]

    def record(self) -> dict[str, Any]:
        return asdict(self)
