"""Verbs have the same results on a GPU and on a CPU."""

from __future__ import annotations

import random

import numpy as np
import pytest
from learned import QUESTIONS, colors, finder
from rights import BOTH, ENGLISH, GERMAN, learn, pairs
from small_models import UNSEEN, reviews, train_classifier
from trained import sentence, train_answerer, train_tagger

import glassformer as gf

pytestmark = pytest.mark.gpu
DEVICE = "cuda"


def on_both(folder):
    return gf.load(folder), gf.load(folder, DEVICE)


def test_classify(tmp_path):
    here, there = on_both(train_classifier(tmp_path, reviews()))
    texts = [*UNSEEN]
    for one, two in zip(here.classify(texts), there.classify(texts), strict=True):
        assert one.labels == two.labels
        assert one.probabilities == pytest.approx(two.probabilities, abs=1e-3)


def test_tag(tmp_path):
    here, there = on_both(train_tagger(tmp_path, "IOBES"))
    rng = random.Random(4)
    texts = [sentence(rng)[0] for _ in range(40)]
    texts.append(" ".join(texts))  # in windows
    for one, two in zip(here.tag(texts), there.tag(texts), strict=True):
        assert one.tags == two.tags
        spans = [[(e.type, e.start, e.end) for e in found.entities] for found in (one, two)]
        assert spans[0] == spans[1]
        for word, same in zip(one.words, two.words, strict=True):
            assert word.probability == pytest.approx(same.probability, abs=1e-3)


def test_answer(tmp_path):
    here, there = on_both(train_answerer(tmp_path))
    told = "So it was told. Emmy Noether was born in Vienna (1912) " + "你好，世界！ " * 60
    for question in ("Who was born?", "Where was that?", "When was that?"):
        one, two = (model.answer(question, told) for model in (here, there))
        assert (one.text, one.start, one.end) == (two.text, two.start, two.end)
        assert one.probability == pytest.approx(two.probability, abs=1e-3)


@pytest.mark.parametrize("beams", [1, 4])
def test_translate(tmp_path, beams):
    objective = {"name": "sequence-to-sequence", "max_source_length": 64}
    learn(tmp_path / "run", pairs(GERMAN, ENGLISH), BOTH, objective=objective).save(tmp_path / "m")
    here, there = on_both(tmp_path / "m")
    one, two = (model.translate(GERMAN, num_beams=beams) for model in (here, there))
    assert [found.text for found in one] == [found.text for found in two]


@pytest.mark.parametrize("mode", ["mean", "first", "last", "max"])
def test_embed(tmp_path, mode):
    here, there = on_both(finder(tmp_path))
    texts = [*QUESTIONS, *QUESTIONS.values()]
    one, two = (model.embed(texts, pooling=mode) for model in (here, there))
    np.testing.assert_allclose(one, two, atol=1e-3)


def test_fill(tmp_path):
    here, there = on_both(colors(tmp_path))
    texts = ["the sky is ___ today", "the ___ is white again", "the ___ is ___ they say"]
    for one, two in zip(here.fill(texts), there.fill(texts), strict=True):
        assert one.text == two.text
        probs = [found.fillings[0].probability for found in (one, two)]
        assert probs[0] == pytest.approx(probs[1], abs=1e-3)
