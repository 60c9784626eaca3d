"""Mixtures: the objective of each row, and losses equal to those of separate objectives."""

from __future__ import annotations

import functools
import json
from collections import Counter
from dataclasses import replace

import material
import numpy as np
import pytest
import readers
import torch

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.train.activation_checkpointing import Compiled
from glassformer.train.batches.mixing import Shared, apportioned
from glassformer.train.build_objective import with_labels
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.mixture_parts import with_heads, with_part_labels
from glassformer.train.recipe import read_recipe
from glassformer.train.step import TrainingModule

LABELS = ("bad", "good")
TAGS = ["O", "B-X", "I-X"]
WORDS = [sentence.split() for sentence in material.SENTENCES]
RECORDS = [
    {
        "text": sentence,
        "label": LABELS[i % 2],
        "words": WORDS[i],
        "tags": [TAGS[len(word) % 3] for word in WORDS[i]],
    }
    for i, sentence in enumerate(material.SENTENCES)
]
PARTS = [
    {"name": "classification", "weight": 0.5, "rate": 1},
    {"name": "tagging", "weight": 2.0, "rate": 3, "labels": TAGS},
]
FAMILIES = {"bert": "ForSequenceClassification", "gpt2": "ForSequenceClassification"}


def made(family: str = "bert"):
    model = with_heads(readers.make(family, FAMILIES[family], LABELS), PARTS)
    model.double().eval()
    return model, make_objective("mixture", model, {"parts": PARTS})


def prepared(objective, records=RECORDS):
    return [example for record in records for example in objective.prepare(record)]


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_those_of_the_parts(family):
    model, objective = made(family)
    stored = prepared(objective)
    rows = material.varied(objective, stored)
    chosen = [int(row["part"][0]) for row in rows]
    assert {0, 1} == set(chosen)
    batch = objective.collate(rows)
    sums = objective(model, batch)
    material.loss_of(objective, sums, batch.counts).backward()
    ours = material.gradients(objective, model)
    total = 0.0
    for number, table in enumerate(PARTS):
        options = {k: v for k, v in table.items() if k not in ("name", "weight", "rate")}
        alone = make_objective(table["name"], model, options)
        records = [r for r, part in zip(RECORDS, chosen, strict=True) if part == number]
        own = alone.collate([e for record in records for e in alone.prepare(record)])
        ((part, found),) = alone(model, own).items()
        name = f"{table['name']}/{part}"
        assert torch.allclose(sums[name], found) and batch.counts[name] == own.counts[part]
        total = total + table["weight"] * found / own.counts[part]
    total.backward()
    for name, gradient in material.gradients(objective, model).items():
        assert torch.allclose(ours[name], gradient, atol=1e-9), name


def test_parts_can_be_learned_from_one_after_the_other():
    model, objective = made()
    batch = objective.collate(material.varied(objective, prepared(objective)))
    material.loss_of(objective, objective(model, batch), batch.counts).backward()
    whole = material.gradients(objective, model)
    parts = objective.split_parts(batch)
    assert [set(part.counts) for part in parts] == [{"classification/classify"}, {"tagging/tag"}]
    for part in parts:
        material.loss_of(objective, objective(model, part), batch.counts).backward()
    for name, gradient in material.gradients(objective, model).items():
        assert torch.allclose(whole[name], gradient, atol=1e-9), name


def test_rates_are_kept_and_rows_depend_on_seed_step_and_row_alone():
    _, objective = made()
    (example, *_) = prepared(objective)
    draws = Counter()
    for step in range(500):
        for row in range(4):
            draws[int(material.vary(objective, example, 7, step, row)["part"][0])] += 1
    assert draws[1] / draws.total() == pytest.approx(0.75, abs=0.03)
    again = [material.vary(objective, example, 7, 3, row) for row in range(9)]
    more = [material.vary(objective, example, 7, 3, row) for row in range(9)]
    assert [int(a["part"][0]) for a in again] == [int(b["part"][0]) for b in more]


def test_a_record_may_say_which_part_it_is_for():
    _, objective = made()
    (example,) = prepared(objective, [{**RECORDS[0], "objective": "tagging"}])
    assert len(example["classification/tokens"]) == 0
    for step in range(20):
        varied = material.vary(objective, example, 1, step, 0)
        assert varied["part"][0] == 1
    with pytest.raises(GlassformerError, match="none of the mixture's: classification, tagging"):
        prepared(objective, [{**RECORDS[0], "objective": "span"}])


def test_rows_of_a_part_that_draws_nothing_stay_as_they_are_stored():
    _, objective = made()
    own = [{**r, "objective": PARTS[i % 2]["name"]} for i, r in enumerate(RECORDS)]
    stored = prepared(objective, own)
    plain, drawn = objective.collate(stored), objective.collate(material.varied(objective, stored))
    assert plain.counts == drawn.counts and plain.tokens == drawn.tokens
    for one, other in ((plain.inputs, drawn.inputs), (plain.targets, drawn.targets)):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_part_without_rows_runs_and_counts_nothing():
    model, objective = made()
    rows = [
        {**row, "part": np.array([0])} for row in material.varied(objective, prepared(objective))
    ]
    batch = objective.collate(rows)
    sums = objective(model, batch)
    assert batch.counts["tagging/tag"] == 0.0 and float(sums["tagging/tag"].detach()) == 0.0
    sum(sums.values()).backward()
    tag = model.get_parameter("heads.tag.out.weight").grad
    assert tag is not None and not tag.any()  # there, as DDP wants it


def test_with_words_beside():
    """Masked words and classes on one body; a model that has the one head gets the other."""
    model = readers.make("bert", "ForMaskedLM", LABELS)
    parts = [{"name": "masked-lm"}, {"name": "classification"}]
    model = with_heads(model, parts)
    objective = make_objective("mixture", model, {"parts": parts})
    assert set(model.heads) == {"lm", "classify"}
    first, last = material.falls(objective, model, prepared(objective))
    assert last < first


def test_heads_are_those_that_a_model_of_one_task_would_have():
    """With dropout, and a dense layer that starts as the pooler."""
    body = readers.make("bert", "Model", hidden_dropout_prob=0.1)
    parts = [{"name": "classification", "head": "kind", "labels": LABELS},
             {"name": "tagging", "head": "names", "labels": TAGS}]  # fmt: skip
    model = with_heads(body, parts)
    single = readers.make("bert", "ForSequenceClassification", LABELS, hidden_dropout_prob=0.1)
    (alone,) = single.spec.heads
    heads = {head.name: head for head in model.spec.heads}
    assert heads["kind"] == replace(alone, name="kind") and alone.dropout == 0.1
    assert heads["names"].dropout == alone.dropout
    pooler, kind = (model.heads[name].transform.state_dict() for name in ("pooler", "kind"))
    assert all(torch.equal(pooler[name], kind[name]) for name in pooler)


def test_the_body_stays_and_the_model_is_saved(tmp_path):
    plain = readers.make("bert", "ForSequenceClassification", LABELS)
    model = with_heads(plain, PARTS)
    model.double()
    tokens = torch.tensor([[2, 9, 8, 3]])
    assert torch.equal(plain(tokens).logits, model(tokens).head_outputs["classify"])
    model.float()
    model.save(tmp_path / "both")
    again = gf.load(tmp_path / "both")
    with torch.no_grad():
        for head in ("classify", "tag"):
            a, b = again(tokens).head_outputs[head], model.eval()(tokens).head_outputs[head]
            assert torch.equal(a, b)


def test_it_learns():
    model, objective = made()
    stored = prepared(objective)
    before, after = readers.learns(objective, model, stored, "tagging/accuracy")
    assert before < 0.6 < after
    batch = objective.collate(material.varied(objective, stored))
    found = objective.measure(model, [batch])
    assert {"classification/accuracy", "classification/f1", "tagging/f1"} <= set(found)


def test_bad_mixtures():
    model = readers.make("bert", "ForSequenceClassification", LABELS)
    with pytest.raises(GlassformerError, match="needs parts"):
        make_objective("mixture", model, {"parts": []})
    with pytest.raises(GlassformerError, match="did you mean 'classification'"):
        make_objective("mixture", model, {"parts": [{"name": "clasification"}]})
    with pytest.raises(GlassformerError, match="rates of a mixture"):
        make_objective("mixture", model, {"parts": [{"name": "classification", "rate": 0}]})
    with pytest.raises(GlassformerError, match="no head 'lm', and none can be put on it"):
        with_heads(model, [{"name": "continuation"}])


def test_rates_hold_where_each_part_has_data_of_its_own():
    """9 texts to classify and 1 to tag are drawn 1 to 3 all the same, each as often as any other
    of its kind."""
    _, objective = made()
    names = ["classification"] * 9 + ["tagging"]
    records = [{**r, "objective": n} for r, n in zip(RECORDS, names, strict=True)]
    stored = prepared(objective, records)

    def lengths(field):
        return np.array([len(example[field]) for example in stored])

    order = Shared(objective.kinds(lengths), batch=8, seed=3)
    places = [place for number in range(250) for place in order.batch(number)]
    draws = Counter(row for _, row in places)
    assert draws[9] == 1500 and draws.total() == 2000
    tagged = {sum(row == 9 for _, row in order.batch(number)) for number in range(250)}
    assert tagged == {6}  # of eight, in each batch
    assert set(draws.values()) == {55, 56, 1500}
    assert order.batch(77) == Shared(objective.kinds(lengths), batch=8, seed=3).batch(77)
    assert objective.kinds(lambda field: np.ones(10, dtype=int)) == []


def test_labels_are_those_of_each_parts_data():
    parts = [{"name": "classification"}, {"name": "tagging"}, {"name": "span"}]
    own = [{**RECORDS[0], "objective": "classification", "tags": ["?"]}, *RECORDS]
    found = with_part_labels(readers.make("bert", "ForMaskedLM"), parts, lambda: own)
    assert found[0]["labels"] == ("bad", "good") and found[1]["labels"] == ("B-X", "I-X", "O")
    model = readers.make("bert", "ForSequenceClassification", LABELS)
    assert "labels" not in with_part_labels(model, parts, lambda: own)[0]
    assert found[2] == {"name": "span"}


def test_a_recipe_with_several_objectives(tmp_path):
    """Tables of a recipe; the model is saved with all its heads, and the run is scored by part."""
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(map(json.dumps, RECORDS)), "utf-8")
    sizes = {
        "num_layers": 1,
        "num_heads": 2,
        "hidden_size": 16,
        "intermediate_size": 24,
        "context_length": 64,
    }
    run = gf.train(
        {
            "model": {"preset": "bert-base", "architecture": "BertForMaskedLM", **sizes},
            "tokenizer": {"type": "wordpiece", "vocab_size": 120},
            "data": {
                "format": "jsonl",
                "train": str(path),
                "validation": str(path),
                "num_workers": 1,
            },
            "objective": [
                {"name": "masked-lm", "rate": 2.0, "max_length": 40},
                {"name": "classification", "weight": 0.5},
                {"name": "tagging"},
            ],
            "train": {
                "max_steps": 2,
                "batch_size": 4,
                "eval_steps": 2,
                "metric_for_best_model": "tagging/f1",
            },
            "run": {"out": str(tmp_path / "run")},
        }
    )
    model = gf.load(run.model)
    outputs = {head.name: head.num_outputs for head in model.spec.heads}
    assert outputs == {"lm": model.tokenizer.size, "classify": 2, "tag": 3}
    (valid,) = [entry["valid"] for entry in run.entries() if "valid" in entry]
    assert {"tagging/f1", "classification/accuracy", "loss.masked-lm/lm"} <= set(valid)


def test_a_number_beside_classes():
    parts = [{"name": "classification"}, {"name": "regression", "head": "much"}]
    model = with_heads(readers.make("bert", "ForSequenceClassification", LABELS), parts)
    objective = make_objective("mixture", model, {"parts": parts})
    stored = prepared(objective, [{**record, "value": 1.5} for record in RECORDS])
    assert material.falls(objective, model, stored)[1] < 1


def test_shares_of_a_period():
    assert apportioned([1, 1, 1]) == [334, 333, 333]
    assert apportioned([0, 3]) == [0, 1000]
    assert apportioned([1e-9, 1]) == [0, 1000]


def test_compiled_there_is_a_graph_for_every_part_and_not_for_every_set_of_them(monkeypatch):
    """Traced, but not turned into machine code, which takes long."""
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    model, objective = made()
    plain, rows = (
        TrainingModule(model, objective),
        material.varied(objective, prepared(objective)[:4]),
    )

    def batch(*parts: int):
        pairs = zip(rows, parts, strict=True)
        return objective.collate([{**row, "part": np.array([part])} for row, part in pairs])

    sets = [batch(0, 0, 0, 0), batch(1, 1, 1, 1), batch(0, 0, 1, 1), batch(0, 1, 1, 1)]
    expected = [plain(one) for one in sets]
    run = Compiled(plain, objective, frugal=False, few_shapes=False)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    for one in sets:
        run(one)
    known = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert 2 <= known <= 3 * len(PARTS)  # of many rows, of one, and of the first number of them
    for one, wanted in zip(reversed(sets), reversed(expected), strict=True):
        found = run(one)
        assert {part: float(value) for part, value in found.items()} == pytest.approx(
            {part: float(value) for part, value in wanted.items()}, abs=1e-9
        )
    for parts in ((1, 0, 0, 0), (1, 1, 0, 0), (1, 1, 1, 0)):
        run(batch(*parts))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == known


def test_labels_of_a_part_are_those_of_its_own_records(tmp_path):
    rows = [
        {"objective": "tagging", "words": ["Ada", "slept"], "tags": ["B-PER", "O"]},
        {"objective": "classification", "text": "a dull film", "label": "bad"},
        {"objective": "classification", "text": "a fine film", "label": "good"},
        {"objective": "classification-2", "text": "a fine film", "label": "art"},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = read_recipe({
        "model": {"preset": "bert-base", "architecture": "BertModel"},
        "data": {"format": "jsonl", "train": [str(tmp_path / "a.jsonl")]},
        "objective": [
            {"name": "classification", "head": "mood"},
            {"name": "classification", "head": "topic"},
            {"name": "tagging", "head": "names", "labels": ["O", "B-PER"]},
        ],
    })  # fmt: skip
    assert with_labels(recipe).model.labels == ("bad", "good")
    model = gf.create("bert-base", architectures=["BertModel"], num_hidden_layers=1)
    named = [{"name": one.name, **one.options} for one in recipe.objective]
    found = with_part_labels(model, named, lambda: rows)
    assert [[*part["labels"]] for part in found] == [["bad", "good"], ["art"], ["O", "B-PER"]]
