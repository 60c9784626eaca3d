"""Regression, compared with explicit errors."""

from __future__ import annotations

import material
import pytest
import readers

from glassformer.errors import GlassformerError
from glassformer.train.objectives import make_objective

KIND = "ForSequenceClassification"
RECORDS = [
    {"text": text, "pair": "So it was.", "value": i / 3 - 1, "where": f"a:{i}"}
    for i, text in enumerate(material.SENTENCES)
]


def prepared(objective, records):
    return [example for record in records for example in objective.prepare(record)]


@pytest.mark.parametrize("family", ["bert", "gpt2"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_gradients(family, outputs):
    model = readers.make(family, KIND, tuple("ab"[:outputs]))
    objective = make_objective("regression", model, {})
    records = [{**r, "value": [r["value"], 0.5][:outputs]} for r in RECORDS[:4]]

    def reference(transformer, example):
        found = readers.read(transformer, example, segments=family == "bert")["classify"][0]
        squares = [(f - float(v)) ** 2 for f, v in zip(found, example["value"], strict=True)]
        return {"classify": [sum(squares) / outputs]}

    material.check_gradients(objective, model, prepared(objective, records), reference)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_it_learns(family):
    model = readers.make(family, KIND, ("value",))
    objective = make_objective("regression", model, {})
    before, after = readers.learns(objective, model, prepared(objective, RECORDS), "pearson")
    assert before < 0.8 < after


def test_what_is_no_number():
    objective = make_objective("regression", readers.make("bert", KIND, ("value",)), {})
    for value in ("much", [1, 2], float("nan"), None):
        with pytest.raises(GlassformerError, match=r"a:7: the value is .*, and not a number"):
            list(objective.prepare({"text": "a", "value": value, "where": "a:7"}))
