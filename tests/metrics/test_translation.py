"""Metrics of generated texts equal those of rouge-score and sacrebleu."""

from __future__ import annotations

import random
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from glassformer.errors import GlassformerError, UnsupportedError
from glassformer.metrics.rouge import (
    KINDS,
    all_words,
    porter_stemmer,
    rouge,
    rouge_means,
    stemmed_words,
)
from glassformer.metrics.translation import summary_scores, translation_scores

ROOT = Path(__file__).parent.parent.parent
REAL = (ROOT / "docs" / "train.md").read_text("utf-8") + (ROOT / "README.md").read_text("utf-8")
PARAGRAPHS = [block for block in REAL.split("\n\n") if len(block) > 200][:40]


def texts_of(draw: random.Random) -> str:
    words = [
        "the",
        "cats",
        "running",
        "relational",
        "naïve",
        "3.5",
        "\n",
        "a",
        "b",
        "İ",
        "x_y",
        "—",
    ]
    return " ".join(draw.choices(words, k=draw.randint(0, 14)))


@pytest.mark.parametrize("stemmed", [False, True])
def test_rouge_is_that_of_rouge_score(stemmed):
    from rouge_score.rouge_scorer import RougeScorer

    theirs = RougeScorer(list(KINDS), use_stemmer=stemmed)
    words = stemmed_words if stemmed else None
    draw = random.Random(2)
    pairs = [(texts_of(draw), texts_of(draw)) for _ in range(800)]
    pairs += list(pairwise(PARAGRAPHS))
    pairs += [(text.replace(". ", ".\n"), text[60:]) for text in PARAGRAPHS]
    for prediction, reference in pairs:
        found, right = (
            rouge(prediction, reference, words=words),
            theirs.score(reference, prediction),
        )
        assert {kind: tuple(found[kind]) for kind in KINDS} == {k: tuple(right[k]) for k in KINDS}


def test_of_several_references_the_nearest_counts_for_each_kind():
    from rouge_score.rouge_scorer import RougeScorer

    theirs, draw = RougeScorer(list(KINDS)), random.Random(3)
    predictions = [texts_of(draw) for _ in range(50)]
    references = [[texts_of(draw) for _ in range(draw.randint(1, 4))] for _ in predictions]
    found = rouge_means(predictions, references)
    scores = [theirs.score_multi(r, p) for p, r in zip(predictions, references, strict=True)]
    for kind in KINDS:
        assert found[kind] == pytest.approx(sum(s[kind].fmeasure for s in scores) / 50, abs=1e-12)


def test_words_of_other_scripts():
    assert all_words("猫坐在 the_mat, 3只!") == ["猫", "坐", "在", "the", "mat", "3", "只"]
    one, *_ = summary_scores(["猫坐在垫子上"], [["猫在垫子上"]])
    assert one.value == pytest.approx(100 * 2 * 5 / 11) and "any script" in one.signature


@pytest.mark.parametrize("options", [{}, {"lowercase": True}, {"tokenize": "char"}])
def test_bleu_and_chrf_are_sacrebleus(options):
    import sacrebleu

    draw = random.Random(4)
    right = [" ".join(block.split()[:20]) for block in PARAGRAPHS]
    said = [" ".join(w for w in text.split() if draw.random() < 0.8) for text in right]
    found = translation_scores(said, [[text] for text in right], **options)
    bleu = sacrebleu.corpus_bleu(said, [right], **options)
    lower = options.get("lowercase", False)
    chrf = sacrebleu.CHRF(lowercase=lower).corpus_score(said, [right])
    assert [one.value for one in found] == [bleu.score, chrf.score]
    assert [one.name for one in found] == ["BLEU", "chrF2"]
    assert ("case:lc" in found[0].signature) == lower


def test_chinese_is_split_as_sacrebleu_does_it_for_chinese():
    found = translation_scores(["猫坐在垫子上面"], [["猫坐在垫子上"]])
    assert "tok:zh" in found[0].signature


def test_what_is_missing_is_named(monkeypatch):
    with pytest.raises(GlassformerError, match="2 texts and 1 references"):
        translation_scores(["a", "b"], [["a"]])
    with pytest.raises(GlassformerError, match="no texts"):
        summary_scores([], [])
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(GlassformerError, match=r"pip install 'glassformer\[tasks\]'"):
        translation_scores(["a"], [["a"]])
    monkeypatch.setitem(sys.modules, "nltk.stem.porter", None)
    porter_stemmer.cache_clear()
    with pytest.raises(UnsupportedError, match=r"pip install 'glassformer\[tasks\]', or .* words"):
        summary_scores(["a"], [["a"]])
    assert summary_scores(["a"], [["a"]], stemmer=False)[0].value == 100
    assert summary_scores(["猫"], [["猫"]])[0].value == 100  # has no stems
