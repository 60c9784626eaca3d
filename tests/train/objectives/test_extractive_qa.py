"""Extractive question answering: windows, and the loss compared with explicit sums."""

from __future__ import annotations

import json
from pathlib import Path

import material
import numpy as np
import pytest
import readers
import torch

from glassformer.data.data_config import DataSettings
from glassformer.data.records import Records
from glassformer.errors import GlassformerError
from glassformer.tasks.answer import best_spans
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.extractive_qa import as_text

KIND = {"bert": "ForQuestionAnswering", "gpt2": "ForQuestionAnswering",
        "xlnet": "ForQuestionAnsweringSimple"}  # fmt: skip


def record(question: str, *answers: str, context: str = material.TEXT, **more):
    found = [{"text": text, "answer_start": context.index(text)} for text in answers]
    return {"question": question, "context": context, "answers": found, "id": question, **more}


RECORDS = [
    record("Who walked?", "The old miller", "miller"),
    record("What barked?", "dog"),
    record("Which animal stood in the water?", "grey heron"),
    record("Who keeps the house?", "Whoever keeps the key", context=material.SENTENCES[9]),
    record("Why?", impossible=True, context=material.SENTENCES[3]),
]


def prepared(objective, records):
    return [example for record in records for example in objective.prepare(record)]


def spelled(example) -> str:
    """The letters from the span's first token to its last."""
    offsets = example["offsets"].reshape(-1, 2)
    first, last = example["span"]
    text = as_text(torch.from_numpy(example["text"].copy()))
    return text[offsets[first, 0] : offsets[last, 1]].strip()


@pytest.mark.parametrize("family", KIND)
@pytest.mark.parametrize(("length", "stride"), [(48, 16), (64, 30), (40, 7)])
def test_windows_cover_the_text_and_the_answer(family, length, stride):
    model = readers.make(family, KIND[family])
    objective = make_objective(
        "span", model, {"max_length": length, "stride": stride, "max_question_length": 9}
    )
    for one in RECORDS[:3]:
        windows = prepared(objective, [one])
        assert len(windows) > 3 and all(len(w["tokens"]) <= length for w in windows)
        inside = [w["tokens"][w["offsets"].reshape(-1, 2)[:, 1] > 0] for w in windows]
        context = model.tokenizer.encode(one["context"], special=False).ids
        whole = list(inside[0])
        for part in inside[1:]:  # each begins `stride` behind the one before
            at = len(whole) - len(inside[0]) + min(stride, len(inside[0]))
            whole[at:] = part
        assert whole[-20:] == context[-20:] and len(whole) == len(context)
        answer = one["answers"][0]["text"]
        with_answer = [w for w in windows if w["span"][0] != w["none"][0]]
        assert with_answer and all(spelled(w) == answer for w in with_answer)
        assert len({int(w["asked"][0]) for w in windows}) == 1


def test_no_answer_is_the_first_token():
    objective = make_objective("span", readers.make("bert", KIND["bert"]), {})
    (window,) = prepared(objective, RECORDS[4:])
    assert window["span"].tolist() == [0, 0] and window["tokens"][0] == 2  # [CLS]
    xlnet = readers.make("xlnet", KIND["xlnet"])
    (window,) = prepared(make_objective("span", xlnet, {}), RECORDS[4:])
    assert window["tokens"][window["none"][0]] == xlnet.tokenizer.special["cls"]


@pytest.mark.parametrize("family", KIND)
def test_gradients(family):
    model = readers.make(family, KIND[family])
    objective = make_objective(
        "span", model, {"max_length": 40, "stride": 20, "max_question_length": 8}
    )

    def reference(transformer, example):
        inputs = {"segments": readers.knows_segments(model)}
        scores = readers.read(transformer, example, **inputs)["span"][0]
        first, last = map(int, example["span"])
        both = material.surprise(scores[:, 0], first) + material.surprise(scores[:, 1], last)
        return {"span": [both / 2]}

    stored = prepared(objective, RECORDS[1:2] + RECORDS[3:])
    material.check_gradients(objective, model, stored, reference)


def test_the_best_span_is_the_best_of_all():
    scores = torch.randn(3, 9, 2, generator=torch.Generator().manual_seed(1))
    best, span = (side[:, 0] for side in best_spans(scores, longest=4, count=1))
    for row in range(3):
        pairs = {
            (i, j): float(scores[row, i, 0] + scores[row, j, 1])
            for i in range(9)
            for j in range(i, min(9, i + 4))
        }
        winner = max(pairs, key=pairs.get)
        assert tuple(span[row].tolist()) == winner
        assert float(best[row]) == pytest.approx(pairs[winner])


def test_the_answer_of_several_windows():
    model = readers.make("bert", KIND["bert"])
    objective = make_objective(
        "span", model, {"max_length": 40, "stride": 15, "allow_no_answer": True}
    )
    stored = prepared(objective, RECORDS)
    batch = objective.collate(stored)
    spans, length = batch.targets["span"], batch.inputs["input_ids"].shape[1]

    class Oracle(torch.nn.Module):
        def forward(self, **inputs):
            scores = torch.zeros(len(spans), length, 2)
            for row, (first, last) in enumerate(spans.tolist()):
                scores[row, first, 0] = scores[row, last, 1] = 9.0 if first else 4.0
            return type("Said", (), {"head_outputs": {"span": scores}})

    assert objective.measure(Oracle(), [batch]) == {"exact": 1.0, "f1": 1.0}
    (window, right), *_ = objective.answers(Oracle(), batch)
    assert right == ["The old miller", "miller"] and window.text == "The old miller"


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_it_learns(family):
    model = readers.make(family, KIND[family])
    objective = make_objective("span", model, {"allow_no_answer": True})
    records = [record(f"What {s.split()[-1]}", s.split()[1], context=s) for s in material.SENTENCES]
    stored = prepared(objective, records[:6])
    before, after = readers.learns(objective, model, stored, "f1", steps=50)
    assert before < 0.6 < after


def test_bad_records():
    objective = make_objective("span", readers.make("bert", KIND["bert"]), {})
    wrong = {**RECORDS[0], "answers": [{"text": "miller", "answer_start": 3}], "where": "s:2"}
    with pytest.raises(GlassformerError, match="s:2: the answer 'miller' does not stand"):
        list(objective.prepare(wrong))
    behind = {**RECORDS[0], "answers": [{"text": "x", "answer_start": -1}], "context": "xx"}
    with pytest.raises(GlassformerError, match="does not stand at letter -1"):
        list(objective.prepare(behind))
    for name in ("question", "context"):
        with pytest.raises(GlassformerError, match=f"s:2: the {name} is 7, and not a text"):
            list(objective.prepare({**RECORDS[0], name: 7, "where": "s:2"}))
    short = make_objective("span", readers.make("bert", KIND["bert"]), {"max_length": 6})
    with pytest.raises(GlassformerError, match="no tokens for the context"):
        list(short.prepare({**RECORDS[0], "where": "s:2"}))


def columns(one):
    """The same record, with its answers as tables made of SQuAD have them: a list of each."""
    names = ("text", "answer_start")
    return {**one, "answers": {name: [a[name] for a in one["answers"]] for name in names}}


def test_answers_as_tables_have_them():
    objective = make_objective("span", readers.make("bert", KIND["bert"]), {"max_length": 48})
    for one in RECORDS:
        rows, wanted = prepared(objective, [columns(one)]), prepared(objective, [one])
        assert len(rows) == len(wanted)
        for row, other in zip(rows, wanted, strict=True):
            assert all(np.array_equal(row[name], other[name]) for name in other)


def test_impossible_by_its_name_in_squad():
    objective = make_objective("span", readers.make("bert", KIND["bert"]), {})
    there = record("Why?", "miller", context="The miller sleeps.")
    (window,) = prepared(objective, [{**there, "is_impossible": True}])
    assert window["span"].tolist() == [0, 0] and as_text(window["answers"]) == "[]"


@pytest.mark.parametrize(
    "answers",
    [
        {"text": ["miller"], "answer_start": [8, 9]},
        {"text": ["miller"]},
        {"text": "miller", "answer_start": 8},
        {"text": ["miller"], "answer_start": ["early"]},
        {"text": [None], "answer_start": [8]},
        [{"text": "miller"}],
        ["miller"],
        "miller",
        8,
    ],
)
def test_malformed_answers_are_named_with_their_place(answers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = columns(RECORDS[0])
    lines = [json.dumps(one) + "\n" for one in (good, {**good, "answers": answers})]
    Path("asked.jsonl").write_text("".join(lines), "utf-8")
    objective = make_objective("span", readers.make("bert", KIND["bert"]), {})
    settings = DataSettings(format="jsonl", train=("asked.jsonl",))
    first, second = Records(settings, "train").strict()
    assert prepared(objective, [first])
    with pytest.raises(GlassformerError, match=r"^asked.jsonl:2: the answers .* a list of each"):
        prepared(objective, [second])


def test_answers_are_kept_as_they_are():
    objective = make_objective("span", readers.make("bert", KIND["bert"]), {})
    context = "Größe: 日本語 über"
    (window,) = prepared(objective, [record("?", "日本語", context=context)])
    assert json.loads(as_text(torch.from_numpy(window["answers"].copy()))) == ["日本語"]
    assert as_text(torch.from_numpy(window["text"].copy())) == context
    assert window["text"].dtype == np.uint8
