"""Exact match and F1 of text answers, as in SQuAD's evaluation script, which no package carries."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from glassformer.errors import DataError
from glassformer.metrics.registry import metric
from glassformer.metrics.report_table import ratio


def normalized(answer: str) -> str:
    """Lowercases and removes punctuation, articles and extra spaces."""
    letters = "".join(c for c in answer.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", letters).split())


@metric("exact")
def exact_match(predicted: str, answers: Sequence[str]) -> float:
    """Whether the prediction equals one of the answers, without case, punctuation and articles.

    For a question without answers, the correct prediction is empty.
    """
    return max(float(normalized(predicted) == normalized(one)) for one in gold_answers(answers))


def word_f1(predicted: str, answers: Sequence[str]) -> float:
    """Returns the F1 of shared words with the most similar answer."""
    return max(
        _word_f1(normalized(predicted).split(), normalized(a).split())
        for a in gold_answers(answers)
    )


def gold_answers(answers: Sequence[str]) -> Sequence[str]:
    """Returns the non-empty answers, or [""] if the question has none."""
    return [one for one in answers if normalized(one)] or [""]


def _word_f1(predicted: list[str], answer: list[str]) -> float:
    if not predicted or not answer:
        return float(predicted == answer)
    shared = sum((Counter(predicted) & Counter(answer)).values())
    return ratio(2 * shared, len(predicted) + len(answer))


def right_answers(record: Mapping[str, Any]) -> list[str]:
    """Returns the answers of a record.

    `answers` are texts or objects with a text, as in SQuAD's files, or one object with all texts,
    as in tables made of them. An impossible question has none.
    """
    found = record["answers"]
    texts = found.get("text") if isinstance(found, Mapping) else found
    if isinstance(texts, list | tuple):
        texts = [one.get("text") if isinstance(one, Mapping) else one for one in texts]
        if all(isinstance(text, str) for text in texts):
            return [] if record.get("impossible", record.get("is_impossible")) else texts
    raise DataError("answers must be a list of texts, or of objects with a text")


def squad_scores(
    given: Mapping[str, str], right: Mapping[str, Sequence[str]]
) -> dict[str, float | int]:
    """Returns percentages named as in SQuAD's script.

    They cover all questions with a prediction in `given`, and separately those that have an answer
    and those that have none.

    Args:
        given: Maps question ids to predictions.
        right: Maps question ids to their answers.
    """
    asked = [id for id in right if id in given]
    exact = {id: exact_match(given[id], right[id]) for id in asked}
    f1 = {id: word_f1(given[id], right[id]) for id in asked}
    with_answer = [id for id in asked if right[id]]
    without = [id for id in asked if not right[id]]
    found: dict[str, float | int] = {}
    for name, ids in (("", asked), ("HasAns_", with_answer), ("NoAns_", without)):
        if ids:
            found[f"{name}exact"] = 100.0 * sum(exact[id] for id in ids) / len(ids)
            found[f"{name}f1"] = 100.0 * sum(f1[id] for id in ids) / len(ids)
            found[f"{name}total"] = len(ids)
    return found
