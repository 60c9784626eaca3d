"""Objectives with a target, from a file to a loss; and their table in the guide."""

from __future__ import annotations

import json
import re
from inspect import Parameter
from pathlib import Path

import material
import numpy as np
import pytest
import readers
import torch

import glassformer as gf
from glassformer.data import DataSettings
from glassformer.train.batches import make_loader, prepare
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.mixture_parts import with_heads
from glassformer.train.objectives.registry import options_of

TEXTS = material.SENTENCES
LABELS = ("bad", "good")
PARTS = [{"name": "classification", "rate": 2.0}, {"name": "regression", "head": "much"}]
CASES = {
    "classification": ("bert", "ForSequenceClassification"),
    "regression": ("gpt2", "ForSequenceClassification"),
    "tagging": ("xlnet", "ForTokenClassification"),
    "question-answering": ("bert", "ForQuestionAnswering"),
    "multiple-choice": ("bert", "ForMultipleChoice"),
    "sequence-to-sequence": ("t5", "ForConditionalGeneration"),
    "continuation": ("llama", "ForCausalLM"),
    "mixture": ("bert", "ForSequenceClassification"),
    "distillation": ("bert", "ForSequenceClassification"),
}
COLUMNS = [
    {
        "text": text,
        "label": LABELS[i % 2],
        "value": i / 10 if i else 0,
        "words": text.split(),
        "tags": [LABELS[len(word) % 2] for word in text.split()],
        "question": "Who?",
        "context": text,
        "answers": [{"text": text[:4], "answer_start": 0}],
        "choices": [text, TEXTS[0], TEXTS[1]][: 2 + i % 2],
        "source": text,
        "target": TEXTS[-i],
    }
    for i, text in enumerate(TEXTS)
]


def made(name: str, folder: Path):
    family, kind = CASES[name]
    labels = ("much",) if name == "regression" else LABELS
    model = readers.make(family, kind, labels)
    options = {"separator": " "} if name == "continuation" else {}
    if name in ("sequence-to-sequence", "continuation"):
        options["label_smoothing"] = 0.1
    if name == "mixture":
        model = with_heads(model, PARTS)
        model.double()
        options = {"parts": PARTS}
    if name == "distillation":
        teacher = readers.make(family, kind, labels)
        teacher.float()
        teacher.save(folder / "teacher")
        options = {
            "teacher": str(folder / "teacher"),
            "task": "classification",
            "cosine_weight": 1.0,
        }
    return model, make_objective(name, model, options)


@pytest.mark.parametrize("name", CASES)
def test_from_a_file_to_a_loss_that_processes_do_not_change(name, tmp_path):
    model, objective = made(name, tmp_path)
    objective.double().eval()
    path = tmp_path / "train.jsonl"
    records = [{**record, "label": 0} if "choice" in name else record for record in COLUMNS]
    path.write_text("\n".join(map(json.dumps, records)), "utf-8")
    settings = DataSettings(train=(str(path),), format="jsonl", num_workers=1)
    store = prepare(settings, "train", objective, tmp_path / "cache", about={})
    loader = make_loader(settings, store, objective, context=64, seed=3, batch=6, ahead=0)
    (one,) = loader.batches(step=5)
    halves = [loader.batches(5, rank, 2)[0] for rank in (0, 1)]
    if name == "distillation":
        objective._teacher[0].double()
    with torch.no_grad():
        alone = objective(model, one)
        parts = [objective(model, half) for half in halves]
    for part, total in alone.items():
        assert one.counts[part] == sum(half.counts[part] for half in halves)
        torch.testing.assert_close(total, sum(sums[part] for sums in parts))
    assert set(one.counts) == set(objective.weights)
    with torch.no_grad():
        found = objective.measure(model, loader.sweep())
    assert found and all(isinstance(value, float) for value in found.values())


HEADED = ("classification", "regression", "tagging", "question-answering", "mixture")


@pytest.mark.parametrize("name", [*HEADED, "sequence-to-sequence", "continuation"])
def test_an_evaluation_runs_the_net_once_a_part(name, tmp_path):
    model, objective = made(name, tmp_path)
    objective.double().eval()
    stored = [example for record in COLUMNS for example in objective.prepare(record)]
    rows = material.varied(objective, stored)
    with torch.no_grad():
        alone = objective(model, objective.collate(rows))
        said = objective.answers(model, objective.collate(rows))
        batch, runs = objective.collate(rows), []
        batch.head_outputs = {}
        counted = model.register_forward_hook(lambda *_: runs.append(1))
        sums, answers = objective(model, batch), objective.answers(model, batch)
        counted.remove()
    assert len(runs) == (2 if name == "mixture" else 1)
    assert answers == said and sums.keys() == alone.keys()
    assert all(torch.equal(sums[part], alone[part]) for part in alone)


@pytest.mark.parametrize("name", HEADED)
def test_records_that_were_foreseen_and_rows_of_few_lengths_are_the_same(name, tmp_path):
    model, objective = made(name, tmp_path)
    objective.double().eval()
    stored = [example for record in COLUMNS for example in objective.prepare(record)]
    objective.lookahead_tokenize([*COLUMNS, {"text": 3, "words": [None], "question": None}])
    again = [example for record in COLUMNS for example in objective.prepare(record)]
    for found, before in zip(again, stored, strict=True):
        assert all(np.array_equal(found[field], before[field]) for field in objective.fields)
    rows = material.varied(objective, stored)
    with torch.no_grad():
        plain, said = (ask(objective, model, rows) for ask in (summed, answered))
        for part in objective.modules():
            part.few_shapes = True
        few, same = (ask(objective, model, rows) for ask in (summed, answered))
    lengths = {x.shape[1] for k, x in objective.collate(rows).inputs.items() if "input_ids" in k}
    assert lengths <= {8, 16, 24, 32, 40, 48, 56, 64}
    for part, value in plain.items():
        torch.testing.assert_close(few[part], value)
    assert len(same) == len(said)
    assert name not in ("classification", "tagging") or same == said


def summed(objective, model, rows):
    return objective(model, objective.collate(rows))


def answered(objective, model, rows):
    return objective.answers(model, objective.collate(rows))


def test_recipes(tmp_path):
    """A classifier whose labels are found in the data, and a student of it."""
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(map(json.dumps, COLUMNS)), "utf-8")
    recipe = {
        "model": {"preset": "bert-base", "architecture": "BertForSequenceClassification"},
        "tokenizer": {"type": "wordpiece", "vocab_size": 120},
        "data": {"format": "jsonl", "train": str(path), "validation": str(path), "num_workers": 1},
        "objective": {"name": "classification", "max_length": 30},
        "train": {
            "max_steps": 2,
            "batch_size": 4,
            "eval_steps": 2,
            "metric_for_best_model": "accuracy",
        },
        "run": {"out": str(tmp_path / "teacher")},
    }
    recipe["model"] |= {
        "num_layers": 2,
        "num_heads": 2,
        "hidden_size": 16,
        "intermediate_size": 24,
        "context_length": 64,
    }
    teacher = gf.train(recipe)
    assert gf.load(teacher.model).spec.labels == LABELS
    recipe["model"] |= {"num_layers": 1}
    recipe["tokenizer"] = {"folder": str(teacher.model)}
    recipe["objective"] = {
        "name": "distillation",
        "teacher": str(teacher.model),
        "task": "classification",
        "task_options": {"label_smoothing": 0.1},
        "cosine_weight": 0.5,
    }
    recipe["run"] = {"out": str(tmp_path / "student")}
    student = gf.train(recipe)
    (valid,) = [entry["valid"] for entry in student.entries() if "valid" in entry]
    assert {"loss.classify", "loss.soft", "loss.cosine", "accuracy", "matthews"} <= set(valid)
    model = gf.load(student.model)
    assert len(model.spec.encoder.blocks) == 1 and model.spec.labels == LABELS
    assert model.config["problem_type"] == "single_label_classification"


GUIDE = (Path(__file__).parents[3] / "docs" / "train.md").read_text("utf-8")


@pytest.mark.parametrize("name", [*CASES, "contrastive"])
def test_the_guide_has_every_option_with_its_default(name):
    (row,) = re.findall(rf"^\| `{name}` \| (.*?) \|", GUIDE, re.M)
    said = dict(re.findall(r"`(\w+)`(?: (\(needed\)|[^,]+))?", row))
    empty = {"()": "", "": ""}
    for key, option in options_of(name).items():
        default = "(needed)" if option.default is Parameter.empty else str(option.default)
        assert said.pop(key) == empty.get(default, default), key
    assert not said
