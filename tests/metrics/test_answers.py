"""Exact match and F1 of answers beside the logic of SQuAD's own evaluation scripts (1.1 and 2.0),
written down here anew from their definition."""

from __future__ import annotations

import collections
import random
import re
import string

import pytest

from glassformer.metrics.answers import exact_match, word_f1

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


def squad_scores(golds, pred):
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
        exact, f1 = squad_scores(golds, pred)
        assert exact_match(pred, golds) == exact
        assert word_f1(pred, golds) == pytest.approx(f1, abs=1e-12)
        same += exact
    assert 0 < same < 200


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
