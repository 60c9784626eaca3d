"""Train room, metrics: how well answers agree with what is right, in the numbers of each task's
literature. Sequences of answers come in, two of equal length."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Entity = tuple[str, int, int]  # its type, its first word and its last


def accuracy(predicted: Sequence[Any], gold: Sequence[Any]) -> float:
    return _share(sum(p == g for p, g in zip(predicted, gold, strict=True)), len(gold))


def f1(
    predicted: ArrayLike,
    gold: ArrayLike,
    average: Literal["macro", "micro", "binary"] = "macro",
    positive: int = 1,
) -> float:
    """The harmonic mean of precision and recall: of the `positive` class alone, of all decisions
    together, or the mean over the classes that occur on either side.

    Classes are numbers, [text]; or of several labels each a flag, [text, label], where "macro" is
    the mean over all labels.
    """
    found, right = np.asarray(predicted), np.asarray(gold)
    if right.ndim == 1:
        classes = np.union1d(found, right) if average != "binary" else np.array([positive])
        found, right = found[:, None] == classes, right[:, None] == classes
    hits = (found & right).sum(0)
    asked = found.sum(0) + right.sum(0)
    if average == "micro":
        return _share(2 * float(hits.sum()), float(asked.sum()))
    each = [_share(2 * float(hit), float(total)) for hit, total in zip(hits, asked, strict=True)]
    return float(np.mean(each))


def matthews(predicted: ArrayLike, gold: ArrayLike) -> float:
    """The correlation of two divisions into classes (Matthews; for several, Gorodkin's)."""
    found, right = np.asarray(predicted), np.asarray(gold)
    classes = np.union1d(found, right)
    f, r = found[:, None] == classes, right[:, None] == classes
    count, hits = float(len(right)), float((found == right).sum())
    sums = f.sum(0).astype(float), r.sum(0).astype(float)
    both = hits * count - sums[0] @ sums[1]
    spread = (count**2 - sums[0] @ sums[0]) * (count**2 - sums[1] @ sums[1])
    return _share(float(both), math.sqrt(spread))


def pearson(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Not a number where one side is constant."""
    x, y = (np.asarray(side, dtype=float) for side in (predicted, gold))
    x, y = x - x.mean(), y - y.mean()
    spread = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / spread if spread else math.nan


def spearman(predicted: ArrayLike, gold: ArrayLike) -> float:
    """Pearson's of the ranks; equal values share the mean of theirs."""
    return pearson(_ranks(np.asarray(predicted)), _ranks(np.asarray(gold)))


def perplexity(total: float, count: float) -> float:
    """Of a sum of cross-entropies in nats; infinite where no float can hold it."""
    mean = total / count
    return math.exp(mean) if mean < 709 else math.inf


# --- answers that are texts (SQuAD's evaluation script) ----------------------------------------


def normalized(answer: str) -> str:
    """Without case, punctuation, articles and needless spaces."""
    letters = "".join(c for c in answer.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", letters).split())


def exact_match(predicted: str, answers: Sequence[str]) -> float:
    """Whether one of the answers was given; a question without answers wants an empty one."""
    return max(float(normalized(predicted) == normalized(one)) for one in answers or [""])


def word_f1(predicted: str, answers: Sequence[str]) -> float:
    """The words that a prediction shares with the answer most like it."""
    return max(
        _word_f1(normalized(predicted).split(), normalized(a).split()) for a in answers or [""]
    )


def _word_f1(predicted: list[str], answer: list[str]) -> float:
    if not predicted or not answer:
        return float(predicted == answer)
    shared = sum((Counter(predicted) & Counter(answer)).values())
    return _share(2 * shared, len(predicted) + len(answer))


# --- entities ----------------------------------------------------------------------------------


def entities(tags: Sequence[str]) -> set[Entity]:
    """The spans that tags mean: IOB1, IOB2, IOE and IOBES alike, read as leniently as conlleval
    does. An entity ends where the type changes, too."""
    found: set[Entity] = set()
    start, open_type = 0, ""
    before = "O"
    for place, tag in enumerate([*tags, "O"]):
        (mark, kind), (mark_before, kind_before) = _split(tag), _split(before)
        if open_type and _ends(mark_before, mark, kind_before, kind):
            found.add((open_type, start, place - 1))
            open_type = ""
        if _begins(mark_before, mark, kind_before, kind):
            start, open_type = place, kind
        before = tag
    return found


def entity_scores(
    predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Precision, recall and F1 of whole entities over all texts, as seqeval has them."""
    pairs = [(entities(p), entities(g)) for p, g in zip(predicted, gold, strict=True)]
    hits = sum(len(p & g) for p, g in pairs)
    said, true = sum(len(p) for p, _ in pairs), sum(len(g) for _, g in pairs)
    return {
        "precision": _share(hits, said),
        "recall": _share(hits, true),
        "f1": _share(2 * hits, said + true),
    }


def _split(tag: str) -> tuple[str, str]:
    mark, _, kind = tag.partition("-")
    return (mark, kind or "_") if mark != "O" else ("O", "")


def _ends(mark_before: str, mark: str, kind_before: str, kind: str) -> bool:
    if mark_before in ("E", "S") or mark in ("B", "S", "O"):
        return True
    return kind_before != kind


def _begins(mark_before: str, mark: str, kind_before: str, kind: str) -> bool:
    if mark == "O":
        return False
    return mark in ("B", "S") or mark_before in ("E", "S", "O") or kind_before != kind


# --- helpers -----------------------------------------------------------------------------------


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _ranks(values: NDArray[Any]) -> NDArray[Any]:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: NDArray[Any] = (last - (count - 1) / 2)[place]
    return ranks
