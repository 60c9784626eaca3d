"""Fine-tuning and what it is compared with: both sides learn from one recipe, and the same weights
get the same figures from either."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.text import train as train_tokenizer
from glassformer.train.recipe import read_recipe

ROOT = Path(__file__).parent.parent
NAMES = ("miller", "baker", "smith", "cook")
DOES = ("likes the river", "likes the old mill", "fears the river", "fears the old mill")
TEXTS = [f"the {who} {does}" for who in NAMES for does in DOES]
HEADS = {
    "classification": ("BertForSequenceClassification", "classifier", "accuracy"),
    "tagging": ("BertForTokenClassification", "classifier", "f1"),
    "span": ("BertForQuestionAnswering", "qa_outputs", "f1"),
}
FORMS = {"classification": "jsonl", "tagging": "conll", "span": "squad"}


@pytest.fixture
def recipes(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "recipes"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tuned.DEVICE", "cpu")
    tokenizer = train_tokenizer("wordpiece", texts=TEXTS * 5, vocab_size=80)
    sizes = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2}
    options = {"intermediate_size": 64, "vocab_size": 80, "architectures": ["BertModel"]}
    gf.create("bert-base", tokenizer=tokenizer, **sizes, **options).save("body")


def write(kind: str) -> str:
    """The data of a kind: whether it is liked, who, and what."""
    if kind == "classification":
        lines = [{"text": text, "label": "likes" if "likes" in text else "fears"} for text in TEXTS]
        path, text = "data.jsonl", "\n".join(map(json.dumps, lines)) + "\n"
    elif kind == "tagging":
        tags = [[f"{word}\t{'B-WHO' if word in NAMES else 'O'}" for word in one.split()]
                for one in TEXTS]  # fmt: skip
        path, text = "data.conll", "\n\n".join(map("\n".join, tags)) + "\n"
    else:
        asked = []
        for number, context in enumerate(TEXTS):
            start = context.rindex("the ")
            answer = {"text": context[start:], "answer_start": start}
            one = {"id": str(number), "question": "What?", "answers": [answer]}
            asked.append({"context": context, "qas": [one]})
        path, text = "data.json", json.dumps({"data": [{"paragraphs": asked}]})
    Path(path).write_text(text)
    return path


def recipe_of(kind: str, *words: str):
    architecture, head, _ = HEADS[kind]
    data = write(kind)
    tables = {
        "model": {"base": "body", "architecture": architecture, "init_missing": [head]},
        "data": {"format": FORMS[kind], "train": data, "test": data},
        "objective": {"name": kind, "max_length": 160},
        "train": {"max_steps": 60, "batch_size": 8, "learning_rate": 5e-3, "warmup_steps": 5,
                  "betas": [0.9, 0.999], "lr_scheduler": "linear", "min_lr_ratio": 0.0},
        "run": {"out": "run", "tensorboard": False},
    }  # fmt: skip
    if kind != "classification":
        tables["model"]["ignore_unexpected"] = ["pooler"]
    return read_recipe(tables, words)


@pytest.mark.parametrize("kind", HEADS)
def test_both_sides_learn_and_judge_alike(kind, recipes):
    import tuned
    from hugging_tasks import PEERS

    metric = HEADS[kind][2]
    learned = tuned.ours(recipe_of(kind), lambda run: gf.load(run.model).save("learned") or {})
    assert learned[metric] > 0.9 and learned["seconds"] > learned["training"] > 0
    assert PEERS[kind](recipe_of(kind), "cpu").run()[metric] > 0.9
    still = ("model.base=half", "train.max_steps=1", "train.learning_rate=1e-12")
    tuned.ours(
        recipe_of(kind, "train.max_steps=3"), lambda run: gf.load(run.model).save("half") or {}
    )
    ours = tuned.ours(
        recipe_of(kind, *still, "model.init_missing=[]", "model.ignore_unexpected=[]")
    )
    theirs = PEERS[kind](recipe_of(kind, *still), "cpu").run()
    shared = {"accuracy", "precision", "recall", "f1", "exact"} & ours.keys() & theirs.keys()
    assert metric in shared
    assert {key: ours[key] for key in shared} == pytest.approx({key: theirs[key] for key in shared})


ALIKE = [("classification", "full"), ("classification", "lora"), ("classification", "frozen"),
         ("tagging", "full"), ("span", "full")]  # fmt: skip


@pytest.mark.parametrize(("kind", "mode"), ALIKE)
def test_both_sides_take_the_same_steps(kind, mode, recipes, monkeypatch):
    """From one head (and one first matrix of LoRA), without dropout and with all texts in a batch,
    the losses are the same at every step: so is all that makes a step. (But for the padding of
    windows, which only the other side takes for places of an answer: here are none.)"""
    import torch
    import tuned
    from hugging_tasks import PEERS

    from glassformer.adapters.low_rank import LowRank

    def first(matrix: torch.Tensor) -> None:
        matrix.data.copy_(torch.linspace(-0.2, 0.3, matrix.numel()).sin().view(matrix.shape))

    monkeypatch.setattr(LowRank, "initialize", lambda part, _: first(part.a))

    tokens = [len(gf.load("body").tokenizer.ids(text)) for text in TEXTS]
    if kind == "span":
        usual = max(tokens, key=tokens.count)
        equal = [text for text, size in zip(TEXTS, tokens, strict=True) if size == usual]
        monkeypatch.setattr(sys.modules[__name__], "TEXTS", equal)

    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = json.loads(Path("body/config.json").read_text()) | no_dropout
    Path("body/config.json").write_text(json.dumps(config))
    whole = recipe_of(kind, "train.max_steps=10")
    tuned.ours(whole, lambda run: gf.load(run.model).save("begun") or {})
    rate = 0.02 if mode == "lora" else 0.005
    said = (*tuned.MODES[mode], "model.base=begun", "model.init_missing=[]",
            "model.ignore_unexpected=[]", f"train.batch_size={len(TEXTS)}", "train.max_steps=12",
            f"train.learning_rate={rate}", "train.warmup_steps=0",
            "run.logging_steps=1")  # fmt: skip
    found: dict[str, list[float]] = {"ours": [], "theirs": []}
    tuned.ours(recipe_of(kind, *said), lambda run: found["ours"].extend(losses_of(run)) or {})

    class Overheard(PEERS[kind]):
        def make_model(self):
            model = super().make_model()
            for name, matrix in model.named_parameters():
                if "lora_A" in name:
                    first(matrix)
            model.register_forward_hook(
                lambda _, given, said: found["theirs"].append(said.loss and float(said.loss))
            )
            return model

    Overheard(recipe_of(kind, *said), "cpu").run()
    assert len(found["ours"]) == 12 and found["ours"][-1] < found["ours"][0] - 0.01
    assert found["ours"] == pytest.approx(found["theirs"][:12], rel=1e-4)


def losses_of(run) -> list[float]:
    lines = (run.folder / "metrics.jsonl").read_text().splitlines()
    return [entry["loss"] for entry in map(json.loads, lines) if "loss" in entry]


@pytest.mark.parametrize("mode", ["lora", "frozen"])
def test_what_does_not_learn_is_left_as_it_was(mode, recipes):
    import torch
    import tuned
    from hugging_tasks import Classify

    recipe = recipe_of("classification", *tuned.MODES[mode], "train.max_steps=3")
    peer = Classify(recipe, "cpu")
    peer.run()
    names = {n.removeprefix("base_model.model.") for n, p in peer.model.named_parameters()
             if p.requires_grad}  # fmt: skip
    learns = {name.split(".")[0] + ("/lora" if "lora" in name else "") for name in names}
    assert learns == ({"bert/lora", "classifier"} if mode == "lora" else {"bert", "classifier"})
    assert all("lora" in name or "pooler" in name for name in names if name.startswith("bert"))
    assert set(tuned.ours(recipe)) >= {"accuracy", "seconds", "training"}
    assert torch.is_grad_enabled()


def test_how_well_scores_tell_two_kinds_apart(recipes):
    import numpy as np
    from scope import auroc

    scores, inside = np.array([0.9, 0.8, 0.8, 0.3]), np.array([True, True, False, False])
    assert auroc(scores, inside) == pytest.approx((1 + 1 + 1 + 0.5) / 4)


def test_tables_say_the_mean_the_deviation_and_the_ratio(recipes, tmp_path):
    from tuned_tables import table
    from tuning import SIDES

    run = {"accuracy": 0.9, "seconds": 2.0, "training": 1.0}
    found = {f"full {side} {seed}": dict(run) for side in SIDES for seed in (1, 2)}
    found["full glassformer 1"] |= {"accuracy": 0.8, "seconds": 1.0}
    found["full glassformer 3"] = run  # of which the other side has nothing yet
    (tmp_path / "sst2.json").write_text(json.dumps(found))
    head, row = table("classify", tmp_path)
    assert row[:4] == ["sst2", "full", "85.0 ± 7.1", "90.0 ± 0.0"] and row[-1] == "0.75"
    assert len(head) == len(row)
