"""Classification, compared with explicit sums; valid and invalid labels."""

from __future__ import annotations

import material
import numpy as np
import pytest
import readers
import torch

from glassformer.errors import GlassformerError
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.labels import find_labels

LABELS = ("bad", "good", "so-so")
RECORDS = [
    {"text": text, "label": LABELS[i % 3], "labels": LABELS[: i % 4], "where": f"a:{i}"}
    for i, text in enumerate(material.SENTENCES)
]
PAIRS = [{**record, "pair": "Was it so?"} for record in RECORDS]
ONE = [{key: r[key] for key in r if key != "labels"} for r in RECORDS]
KIND = "ForSequenceClassification"


def prepared(objective, records):
    return [example for record in records for example in objective.prepare(record)]


@pytest.mark.parametrize("family", ["bert", "gpt2", "xlnet", "bart"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients(family, smoothing):
    model = readers.make(family, KIND, LABELS)
    objective = make_objective("classification", model, {"label_smoothing": smoothing})
    records = [{k: r[k] for k in r if k != "labels"} for r in (RECORDS[:3] + PAIRS[3:5])]

    def reference(transformer, example):
        logits = readers.read(transformer, example, segments=readers.knows_segments(model))[
            "classify"
        ][0]
        each = [material.surprise(logits, i) for i in range(3)]
        right = each[int(example["label"][0])]
        return {"classify": [(1 - smoothing) * right + smoothing * sum(each) / 3]}

    material.check_gradients(objective, model, prepared(objective, records), reference)
    assert model.config["problem_type"] == "single_label_classification"


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_gradients_of_several_labels(family):
    model = readers.make(family, KIND, LABELS)
    objective = make_objective("classification", model, {"multi_label": True})

    def reference(transformer, example):
        logits = readers.read(transformer, example, segments=family == "bert")["classify"][0]
        yes = torch.sigmoid(logits)
        wanted = [i in example["label"] for i in range(3)]
        losses = [-(y if w else 1 - y).log() for y, w in zip(yes, wanted, strict=True)]
        return {"classify": [sum(losses) / 3]}

    material.check_gradients(objective, model, prepared(objective, RECORDS[:5]), reference)


def test_a_pair_is_told_apart_by_segments():
    objective = make_objective("classification", readers.make("bert", KIND, LABELS), {})
    (example,) = objective.prepare({**ONE[0], "pair": "Was it so?"})
    ends = np.flatnonzero(example["tokens"] == material.wordpiece().special["sep"])
    assert len(ends) == 2 and ends[1] == len(example["tokens"]) - 1
    assert example["segments"].tolist() == [0] * (ends[0] + 1) + [1] * (ends[1] - ends[0])


def test_a_long_text_is_cut():
    model = readers.make("bert", KIND, LABELS)
    objective = make_objective("classification", model, {"max_length": 20})
    (example,) = objective.prepare({"text": material.TEXT, "label": "bad"})
    assert len(example["tokens"]) == 20
    with pytest.raises(GlassformerError, match="more than the 64 positions"):
        make_objective("classification", model, {"max_length": 65})


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_it_learns(family, several):
    model = readers.make(family, KIND, LABELS)
    objective = make_objective("classification", model, {"multi_label": several})
    stored = prepared(objective, RECORDS if several else ONE)
    before, after = readers.learns(objective, model, stored, "accuracy", steps=60)
    assert before < 0.8 < after


def test_scores_of_two_labels_have_a_positive_one():
    objective = make_objective("classification", readers.make("bert", KIND, ("no", "yes")), {})
    scores = objective.score([(1, 1), (1, 0), (0, 0), (0, 1), (0, 0), (1, 1)])
    assert scores == pytest.approx({"accuracy": 4 / 6, "f1": 2 / 3, "matthews": 1 / 3})


def test_labels_are_found_in_the_data():
    assert find_labels("classification", ONE) == LABELS
    assert find_labels("classification", RECORDS) == LABELS
    numbers = [{"label": i} for i in (10, 2, 1)] + [{"label": "2"}]
    assert find_labels("classification", numbers) == ("1", "2", "10")
    assert find_labels("classification", [{"labels": "b, a"}]) == ("a", "b")
    assert find_labels("classification", [{"labels": "['b, c', 'a']"}]) == ("a", "b, c")
    assert find_labels("tagging", [{"tags": ["O", "B-X"]}]) == ("B-X", "O")
    assert find_labels("regression", [{"value": 0.5}]) == ("value",)
    assert find_labels("causal-lm", [{"text": "a"}]) == ()


def test_of_two_columns_of_labels_the_kind_decides():
    row = {"text": "a", "label": "bad", "labels": "good; bad", "where": "a:1"}
    one = make_objective("classification", readers.make("bert", KIND, LABELS), {})
    several = make_objective(
        "classification", readers.make("bert", KIND, LABELS), {"multi_label": True}
    )
    assert [LABELS[i] for i in next(iter(one.prepare(row)))["label"]] == ["bad"]
    assert [LABELS[i] for i in next(iter(several.prepare(row)))["label"]] == ["good", "bad"]
    assert find_labels("classification", [row]) == ("bad",)
    assert find_labels("classification", [row], multi_label=True) == ("bad", "good")


def test_what_is_no_label():
    objective = make_objective("classification", readers.make("bert", KIND, LABELS), {})
    with pytest.raises(GlassformerError, match=r"b\.csv:3: the label 'goood' \(did you mean"):
        list(objective.prepare({"text": "a", "label": "goood", "where": "b.csv:3"}))
    with pytest.raises(GlassformerError, match="multi_label = true"):
        list(objective.prepare({"text": "a", "labels": ["good", "bad"], "where": "b.csv:3"}))
    with pytest.raises(GlassformerError, match="has no column 'label'"):
        list(objective.prepare({"text": "a", "where": "b.csv:3"}))
    with pytest.raises(GlassformerError, match="needs the head 'classify'"):
        make_objective("classification", readers.make("bert", "ForMaskedLM"), {})


def test_an_empty_text():
    objective = make_objective("classification", readers.make("llama", KIND, LABELS), {})
    with pytest.raises(GlassformerError, match="c:1: the text is empty"):
        list(objective.prepare({"text": "", "label": "bad", "where": "c:1"}))
