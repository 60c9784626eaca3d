"""Word and character error rates, compared with jiwer's."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

import pytest

from glassformer.metrics.bootstrap import Resamples, bootstrap_sums
from glassformer.metrics.speech import SpeechErrors, cer, edit_distance, wer

# By jiwer 4.0.0: the right text, what was written, wer and cer.
SCORES = json.loads((Path(__file__).parent / "jiwer_scores.json").read_text())


def test_the_rates_equal_those_of_jiwer():
    for right, written, words, characters in SCORES:
        found = SpeechErrors.rates([SpeechErrors.of(right, written)])
        assert found == {"wer": pytest.approx(words), "cer": pytest.approx(characters)}


def test_a_distance_is_the_least_number_of_changes():
    @cache
    def slow(one: str, other: str) -> int:
        if not one or not other:
            return len(one) + len(other)
        changes = (slow(one[1:], other), slow(one, other[1:]))
        return min(*(1 + each for each in changes), slow(one[1:], other[1:]) + (one[0] != other[0]))

    draw = random.Random(0)
    for _ in range(200):
        one, other = ("".join(draw.choices("abc", k=draw.randrange(9))) for _ in range(2))
        assert edit_distance(one, other) == slow(one, other)


def test_rates_are_over_all_words_and_have_intervals():
    errors = [SpeechErrors.of(right, written) for right, written, *_ in SCORES]
    found = bootstrap_sums(SpeechErrors.sums(errors), {"wer": wer, "cer": cer}, Resamples(300))
    assert found["wer"].value == SpeechErrors.rates(errors)["wer"]
    assert found["wer"].value == pytest.approx(
        sum(one.word_errors for one in errors) / sum(one.words for one in errors)
    )
    assert found["wer"].low < found["wer"].value < found["wer"].high


def test_words_where_nothing_was_said_are_errors():
    assert SpeechErrors.rates([SpeechErrors.of("", "")]) == {"wer": 0.0, "cer": 0.0}
    assert SpeechErrors.rates([SpeechErrors.of("", "thank you")]) == {"wer": 2.0, "cer": 9.0}
    assert SpeechErrors.rates([SpeechErrors.of("a b", "")]) == {"wer": 1.0, "cer": 1.0}
