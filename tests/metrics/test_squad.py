"""Exact match and F1 of answers beside the logic of SQuAD's own evaluation scripts (1.1 and 2.0),
written down here anew from their definition."""

from __future__ import annotations

import collections
import random
import re
import string
from pathlib import Path

import pytest

from glassformer.metrics.squad import exact_match, squad_scores, word_f1

DOCS = Path(__file__).parent.parent.parent / "docs"
WORDS = """The a an miller's Miller, old (old) man; dog—cat U.S. 中文 café 1,000 % and AN the"""


def normalize_answer(s):
    s = s.lower()
    exclude = set(string.punctuation)
    s = "".join(ch for ch in s if ch not in exclude)
    s = re.compile(r"\b(a|an|the)\b", re.UNICODE).sub(" ", s)
    return " ".join(s.split())


def squad_f1(gold, pred):
    gold_toks, pred_toks = normalize_answer(gold).split(), normalize_answer(pred).split()
    common = collections.Counter(gold_toks) & collections.Counter(pred_toks)
    num_same = sum(common.values())
    if len(gold_toks) == 0 or len(pred_toks) == 0:
        return int(gold_toks == pred_toks)
    if num_same == 0:
        return 0
    precision, recall = num_same / len(pred_toks), num_same / len(gold_toks)
    return 2 * precision * recall / (precision + recall)


def judged(golds, pred):
    """get_raw_scores of version 2.0 for one question."""
    golds = [a for a in golds if normalize_answer(a)] or [""]
    exact = max(int(normalize_answer(a) == normalize_answer(pred)) for a in golds)
    return exact, max(squad_f1(a, pred) for a in golds)


@pytest.mark.parametrize("seed", range(5))
def test_random_answers(seed):
    rng = random.Random(seed)
    same = 0
    for _ in range(200):
        golds = [
            " ".join(rng.choices(WORDS.split(), k=rng.randint(0, 4)))
            for _ in range(rng.randint(0, 3))
        ]
        pred = rng.choice([*golds, " ".join(rng.choices(WORDS.split(), k=rng.randint(0, 4)))])
        exact, f1 = judged(golds, pred)
        assert exact_match(pred, golds) == exact
        assert word_f1(pred, golds) == pytest.approx(f1, abs=1e-12)
        same += exact
    assert 0 < same < 200


def test_answers_of_real_texts():
    """Spans of the documentation: what is found begins or ends some words off, or elsewhere."""
    rng, texts = random.Random(6), [path.read_text("utf-8") for path in sorted(DOCS.glob("*.md"))]
    given, right, scores = {}, {}, []
    for number in range(400):
        words = rng.choice(texts).split()
        start = rng.randrange(len(words) - 12)
        size = rng.randint(1, 6)
        golds = [" ".join(words[start : start + size]), " ".join(words[start : start + size + 1])]
        first = max(0, start + rng.choice([0, 0, 0, -1, 1, 9]))
        pred = " ".join(words[first : first + size + rng.choice([0, 0, 1, -1])])
        id = str(number)
        given[id], right[id] = pred, golds if rng.random() < 0.8 else []
        scores.append(judged(right[id], pred))
        assert (exact_match(pred, right[id]), word_f1(pred, right[id])) == pytest.approx(scores[-1])
    found = squad_scores(given, right)
    exact, f1 = (100 * sum(side) / len(scores) for side in zip(*scores, strict=True))
    assert (found["exact"], found["f1"]) == pytest.approx((exact, f1)) and 10 < exact < f1 < 90
    assert found["HasAns_total"] + found["NoAns_total"] == found["total"] == 400


@pytest.mark.parametrize(
    ("said", "answers", "exact", "f1"),
    [
        ("The Miller.", ["miller"], 1.0, 1.0),
        ("an old miller", ["the miller", "miller"], 0.0, 2 / 3),
        ("old old man", ["old man"], 0.0, 4 / 5),
        ("", [], 1.0, 1.0),
        ("miller", [], 0.0, 0.0),
        ("", ["miller"], 0.0, 0.0),
        ("the", [], 1.0, 1.0),
    ],
)
def test_answers_as_squads_script_judges_them(said, answers, exact, f1):
    assert exact_match(said, answers) == exact
    assert word_f1(said, answers) == pytest.approx(f1)
