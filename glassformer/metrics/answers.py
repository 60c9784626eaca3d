"""Metrics room: answers that are texts, judged as SQuAD's evaluation script does it."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from glassformer.metrics.table import share


def normalized(answer: str) -> str:
    """Without case, punctuation, articles and needless spaces."""
    letters = "".join(c for c in answer.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", letters).split())


def exact_match(predicted: str, answers: Sequence[str]) -> float:
    """Whether one of the answers was given; a question without answers wants an empty one."""
    return max(float(normalized(predicted) == normalized(one)) for one in rights(answers))


def word_f1(predicted: str, answers: Sequence[str]) -> float:
    """The words that a prediction shares with the answer most like it."""
    return max(
        _word_f1(normalized(predicted).split(), normalized(a).split()) for a in rights(answers)
    )


def rights(answers: Sequence[str]) -> Sequence[str]:
    """Those that say something, or else that nothing is to be said."""
    return [one for one in answers if normalized(one)] or [""]


def _word_f1(predicted: list[str], answer: list[str]) -> float:
    if not predicted or not answer:
        return float(predicted == answer)
    shared = sum((Counter(predicted) & Counter(answer)).values())
    return share(2 * shared, len(predicted) + len(answer))
