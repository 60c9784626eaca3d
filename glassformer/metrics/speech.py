"""Word and character error rates of transcripts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from glassformer.metrics.registry import declare_metric, metric

Normalize = Callable[[str], str]
Numbers = NDArray[Any]

declare_metric("ctc_wer", "The word error rate of the CTC head.", smaller_is_better=True)
declare_metric("ctc_cer", "The character error rate of the CTC head.", smaller_is_better=True)


@dataclass(frozen=True)
class SpeechErrors:
    """The errors of a transcript: substitutions, deletions and insertions together.

    Attributes:
        word_errors: Errors in words.
        words: Words of the right text.
        character_errors: Errors in characters, of which spaces are some.
        characters: Characters of the right text.
    """

    word_errors: int
    words: int
    character_errors: int
    characters: int

    @classmethod
    def of(cls, right: str, written: str, normalize: Normalize = str) -> Self:
        """Compares a transcript with the right text, after both were normalized."""
        sides = [" ".join(normalize(text).split()) for text in (right, written)]
        words = [side.split() for side in sides]
        return cls(edit_distance(*words), len(words[0]), edit_distance(*sides), len(sides[0]))

    @staticmethod
    def sums(errors: Sequence[SpeechErrors]) -> Numbers:
        """Returns the counts of transcripts as [transcript, count], for intervals."""
        return np.array([astuple(one) for one in errors], float).reshape(-1, 4)

    @classmethod
    def rates(cls, errors: Sequence[SpeechErrors]) -> dict[str, float]:
        """Returns the error rates of all transcripts together."""
        totals = cls.sums(errors).sum(0, keepdims=True)
        return {"wer": float(wer(totals)[0]), "cer": float(cer(totals)[0])}


@metric("wer", smaller_is_better=True)
def wer(sums: Numbers) -> Numbers:
    """The word error rate: substitutions, deletions and insertions by the words of the right text.

    Args:
        sums: Sums of the counts of `SpeechErrors`, [sum, count].
    """
    return _rate(sums[:, 0], sums[:, 1])


@metric("cer", smaller_is_better=True)
def cer(sums: Numbers) -> Numbers:
    """The character error rate: like the word error rate, of characters and spaces.

    Args:
        sums: Sums of the counts of `SpeechErrors`, [sum, count].
    """
    return _rate(sums[:, 2], sums[:, 3])


def _rate(errors: Numbers, right: Numbers) -> Numbers:
    """Divides; where nothing was said, what was written counts as so many errors of one."""
    rate: Numbers = errors / np.maximum(right, 1)
    return rate


def edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Returns the least number of substitutions, deletions and insertions between two sequences.

    It is the Levenshtein distance, one row of the table at a time: the insertions of a row follow
    from a running minimum.
    """
    numbers: dict[Hashable, int] = {}
    left, right = (
        np.array([numbers.setdefault(item, len(numbers)) for item in side], np.int64)
        for side in (one, other)
    )
    places = np.arange(len(right) + 1)
    row = places
    for index, item in enumerate(left, 1):
        best = np.minimum(row[1:] + 1, row[:-1] + (right != item))
        before = np.concatenate(([index], best)) - places
        row = np.minimum.accumulate(before) + places
    return int(row[-1])
