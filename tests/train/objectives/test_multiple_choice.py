"""Multiple choice, compared with explicit sums."""

from __future__ import annotations

import material
import numpy as np
import pytest
import readers

from glassformer.errors import GlassformerError
from glassformer.train.objectives import make_objective

RECORDS = [
    {"question": "Who kept the key?", "choices": ["A dog.", "The old miller."], "label": 1},
    {"question": "What turned?", "choices": ["The wind.", "She", "A heron"], "label": "A"},
    {"prompt": "He", "choices": ["laughed!", "was bread", "barked", "stood"], "label": "barked"},
    {"context": "The bridge burnt.", "question": "What?", "choices": ["It", "He"], "label": "0"},
]
FAMILIES = {"bert": "ForMultipleChoice", "gpt2": "DoubleHeadsModel", "xlnet": "ForMultipleChoice"}


def prepared(objective, records):
    return [example for record in records for example in objective.prepare(record)]


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients(family):
    """Rivals one by one, without those that stand in for missing ones."""
    model = readers.make(family, FAMILIES[family])
    objective = make_objective("multiple-choice", model, {})

    def reference(transformer, example):
        ends = np.cumsum(example["lengths"])
        scores = []
        for start, stop in zip([0, *ends[:-1]], ends, strict=True):
            inputs = {"input_ids": material.ids(example["tokens"][start:stop])[None]}
            if readers.knows_segments(model):
                inputs["token_type_ids"] = material.ids(example["segments"][start:stop])[None]
            scores.append(transformer(**inputs).head_outputs["choose"][0, 0])
        right = int(example["label"][0])
        return {"choose": [sum(s.exp() for s in scores).log() - scores[right]]}

    material.check_gradients(objective, model, prepared(objective, RECORDS), reference)


def test_labels_by_number_letter_or_text():
    objective = make_objective("multiple-choice", readers.make("bert", FAMILIES["bert"]), {})
    assert [int(row["label"][0]) for row in prepared(objective, RECORDS)] == [1, 0, 2, 0]
    for wrong in (2, "C", "both", -1):
        with pytest.raises(
            GlassformerError, match=f"q:1: the label is {wrong!r}, and not one of 2 choices"
        ):
            list(objective.prepare({**RECORDS[0], "label": wrong, "where": "q:1"}))


def test_the_context_comes_first():
    objective = make_objective("multiple-choice", readers.make("bert", FAMILIES["bert"]), {})
    row, text = prepared(objective, RECORDS[3:])[0], material.wordpiece()
    first = row["tokens"][: row["lengths"][0]]
    whole = text.encode("The bridge burnt.", "What? It")
    assert first.tolist() == whole.ids


@pytest.mark.parametrize("family", ["bert", "xlnet"])
def test_it_learns(family):
    model = readers.make(family, FAMILIES[family])
    objective = make_objective("multiple-choice", model, {})
    stored = prepared(objective, RECORDS)
    said = objective.answers(model, objective.collate(stored))
    for example, (found, _) in zip(stored, said, strict=True):  # what it does not say by chance
        example["label"] = (found + 1) % len(example["lengths"]) + 0 * example["label"]
    assert readers.learns(objective, model, stored, "accuracy") == (0.0, 1.0)
