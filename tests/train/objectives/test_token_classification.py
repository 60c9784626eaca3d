"""Tagging: positions of the tags, and the loss compared with explicit sums."""

from __future__ import annotations

import material
import numpy as np
import pytest
import readers

from glassformer.errors import GlassformerError
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.text_inputs import IGNORED
from glassformer.train.objectives.token_classification import aligned, pieces

LABELS = ("B-PER", "I-PER", "O")
SENTENCES = [sentence.replace(",", " ,").split() for sentence in material.SENTENCES]
RECORDS = [
    {"words": words, "tags": [LABELS[len(word) % 3] for word in words], "where": f"a:{i}"}
    for i, words in enumerate(SENTENCES)
]
KIND = "ForTokenClassification"


def prepared(objective, records):
    return [example for record in records for example in objective.prepare(record)]


@pytest.mark.parametrize("tokenizer", [material.bytelevel, material.wordpiece, material.pieces])
@pytest.mark.parametrize("words", SENTENCES[:7], ids=lambda words: words[0])
def test_a_tag_stands_at_the_first_token_of_its_word(tokenizer, words):
    """Read one token at a time, the text of a word begins at the token that has its tag: what is
    decoded from there to the next tag is the word."""
    vocabulary = tokenizer()
    ids, first = aligned(vocabulary, words)
    assert None not in first and first == sorted(set(first)) and first[0] == 0
    for word, start, stop in zip(words, first, [*first[1:], len(ids)], strict=True):
        assert vocabulary.decode(ids[start:stop]).replace(" ", "") == word
    assert len(ids) > len(words)


def test_letters_of_several_bytes_and_words_of_nothing():
    words, tokenizer = ["né", "日本", "x"], material.bytelevel()
    ids, first = aligned(tokenizer, words)
    ends = [*first[1:], len(ids)]
    read = [tokenizer.decode(ids[a:b]) for a, b in zip(first, ends, strict=True)]
    assert [text.strip() for text in read] == words
    assert aligned(material.wordpiece(), ["the", "\u200b", "key"])[1][1] is None


@pytest.mark.parametrize("family", ["bert", "gpt2", "xlnet"])
def test_gradients(family):
    model = readers.make(family, KIND, LABELS)
    objective = make_objective("tagging", model, {})

    def reference(transformer, example):
        scores = readers.read(transformer, example, segments=False)["tag"][0]
        asked = np.flatnonzero(example["tags"] != IGNORED)
        return {"tag": [material.surprise(scores[i], int(example["tags"][i])) for i in asked]}

    material.check_gradients(objective, model, prepared(objective, RECORDS[:4]), reference)


def test_a_long_sentence_is_cut_between_words():
    model = readers.make("bert", KIND, LABELS)
    objective = make_objective("tagging", model, {"max_length": 12})
    record = {key: [x for r in RECORDS for x in r[key]] for key in ("words", "tags")}
    rows = prepared(objective, [record])
    special = material.wordpiece().special
    assert len(rows) > 3 and all(len(row["tokens"]) <= 12 for row in rows)
    assert all(row["tokens"][0] == special["cls"] for row in rows)
    assert all(row["tokens"][-1] == special["sep"] for row in rows)
    assert all(row["tags"][1] != IGNORED for row in rows)  # a row begins with a word
    tags = np.concatenate([row["tags"][row["tags"] != IGNORED] for row in rows])
    assert [LABELS[tag] for tag in tags] == record["tags"]
    assert list(pieces(10, {0, 9}, 4)) == [(0, 4), (4, 8), (8, 10)]


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_it_learns(family):
    model = readers.make(family, KIND, LABELS)
    objective = make_objective("tagging", model, {})
    before, after = readers.learns(objective, model, prepared(objective, RECORDS[:6]), "f1")
    assert before < 0.6 < after


def test_entities_are_scored_where_tags_mean_some():
    model = readers.make("bert", KIND, LABELS)
    objective = make_objective("tagging", model, {})
    said, right = ["B-PER", "I-PER", "O"], ["B-PER", "I-PER", "B-PER"]
    expected = {"accuracy": 2 / 3, "precision": 1.0, "recall": 0.5, "f1": 2 / 3}
    assert objective.score([(said, right)]) == pytest.approx(expected)
    plain = make_objective("tagging", readers.make("bert", KIND, ("NOUN", "VERB")), {})
    assert plain.score([(["NOUN"], ["VERB"])]) == {"accuracy": 0.0}


def test_bad_records():
    objective = make_objective("tagging", readers.make("bert", KIND, LABELS), {})
    with pytest.raises(GlassformerError, match="t:9: the label 'B-LOC'"):
        list(objective.prepare({"words": ["a"], "tags": ["B-LOC"], "where": "t:9"}))
    with pytest.raises(GlassformerError, match="t:9: there are 2 words and 1 tags"):
        list(objective.prepare({"words": ["a", "b"], "tags": ["O"], "where": "t:9"}))
