"""A trained model has the same logits after loading its folder in every way."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from quick import quick

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.text import train as train_tokenizer
from glassformer.train.trainer import Trainer

WORDS = {"good": ["fine", "great", "lovely"], "bad": ["dull", "poor", "weak"], "odd": ["strange"]}
ROWS = [
    {"text": f"a {word} {thing} of {n}", "label": label}
    for label, words in WORDS.items()
    for word in words
    for thing in ("film", "book", "play")
    for n in range(3)
]
TEXTS = ["a lovely book of 2", "a weak play of 0", "a strange film of 1"]
ADAPTERS: dict[str, dict[str, Any]] = {
    "lora": {"type": "lora", "rank": 2, "target_modules": ["query", "value"]},
    "adalora": {"type": "adalora", "rank": 3, "target_rank": 2, "final_steps": 2},
    "bottleneck": {"type": "bottleneck", "bottleneck_size": 4},
    "prefix": {"type": "prefix", "num_virtual_tokens": 3},
    "prompt": {"type": "prompt", "num_virtual_tokens": 3},
    "bitfit": {"type": "bitfit"},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Data, a base that has the head of its pretraining, and a run of every kind."""
    folder = tmp_path_factory.mktemp("home")
    for name in ("train", "valid"):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    tokenizer = train_tokenizer("wordpiece", texts=[row["text"] for row in ROWS], vocab_size=70)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 24, "max_position_embeddings": 24, "vocab_size": tokenizer.size}
    sizes |= {"initializer_range": 0.3, "hidden_dropout_prob": 0.0}
    base = gf.create("bert-base", tokenizer=tokenizer, architectures=["BertForMaskedLM"], **sizes)
    base.save(folder / "base")
    return folder


def recipe(run: str, **more: Any) -> dict[str, Any]:
    tables: dict[str, Any] = {
        "model": {
            "base": "base",
            "architecture": "BertForSequenceClassification",
            "init_missing": ["classifier", "bert.pooler"],
            "ignore_unexpected": ["cls"],
        },
        "data": {
            "format": "jsonl",
            "train": "train.jsonl",
            "validation": "valid.jsonl",
            "num_workers": 1,
        },
        "objective": {"name": "classification"},
        "train": {
            "max_steps": 20,
            "batch_size": 21,
            "learning_rate": 0.02,
            "warmup_steps": 1,
            "seed": 3,
        },
        "run": {"out": f"runs/{run}", "tensorboard": False},
    }
    tables["train"] |= more.pop("train", {})
    return {**tables, **more}


def logits(model: gf.Model) -> torch.Tensor:
    batch = model.tokenizer.batch(TEXTS)
    with torch.no_grad():
        out = model(batch.tokens, batch.mask)
    return out.head_outputs.get("classify", out.logits)


def trained(tables: dict[str, Any], monkeypatch) -> tuple[Any, torch.Tensor]:
    """The run, and the logits of the model at its end, in the process that trained it."""
    seen = []
    take_steps = Trainer.take_steps

    def looked(trainer: Trainer, *given: Any) -> None:
        take_steps(trainer, *given)
        model = trainer.loop.model
        model.eval()
        seen.append(logits(model))

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "take_steps", looked)
        return gf.train(tables, device="cpu"), seen[0]


@pytest.mark.parametrize("kind", [*ADAPTERS, "full", "frozen"])
def test_a_run_reloads_as_what_it_trained(home, monkeypatch, kind, glassformer):
    monkeypatch.chdir(home)
    adapter = {"adapter": ADAPTERS[kind]} if kind in ADAPTERS else {}
    more = {"train": {"freeze_base": True}} if kind == "frozen" else {}
    run, wanted = trained(recipe(kind, **adapter, **more), monkeypatch)
    last = [json.loads(line) for line in run.metrics_file.read_text().splitlines()][-1]["valid"]
    found = gf.evaluate(str(run.folder), "valid.jsonl", n_resamples=0).metrics["accuracy"].value
    assert found == pytest.approx(last["accuracy"]) and found > 0.43
    # of AdaLoRA the triplets that were taken away are not saved, so others are added up
    close = torch.equal if kind != "adalora" else partial(torch.allclose, atol=1e-6)
    for source in (run.folder, run.model, run.best):
        model = gf.load(source)
        assert close(logits(model), wanted)
        assert model.spec.labels == ("bad", "good", "odd")
    if adapter:
        assert close(logits(gf.load("base", adapter=run.folder)), wanted)
    monkeypatch.chdir(home / "runs")  # nothing depends on where one stands
    assert close(logits(gf.load(kind)), wanted)
    code, shown, _ = glassformer("classify", kind, TEXTS[0], "--json")
    probs = dict(zip(model.spec.labels, wanted[0].softmax(-1).tolist(), strict=True))
    assert code == 0
    assert json.loads(shown)["probabilities"] == pytest.approx(probs, abs=1e-5)
    if kind not in ("bottleneck", "full", "frozen"):
        plain = transformers.AutoModelForSequenceClassification.from_pretrained(
            home / "base", num_labels=3
        )
        theirs = peft.PeftModel.from_pretrained(plain, kind + "/model").eval()
        batch = model.tokenizer.batch(TEXTS)
        with torch.no_grad():
            out = theirs(input_ids=batch.tokens, attention_mask=batch.mask.long()).logits
        assert torch.allclose(out, wanted, atol=1e-5)


@pytest.mark.parametrize("kind", quick(["lora", "full"]))
def test_the_card_prints_code_that_works(home, monkeypatch, kind):
    monkeypatch.chdir(home)
    run = gf.train(recipe(kind, **({"adapter": ADAPTERS[kind]} if kind == "lora" else {})))
    card = (run.folder / "README.md").read_text()
    assert "In the folder in which `glassformer train` was called" in card
    python, shell = (re.search(rf"```{x}\n(.*?)```", card, re.DOTALL)[1] for x in ("python", "sh"))
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    tool = home / "bin"  # as pip installs it, of the sources that are tested
    tool.mkdir(exist_ok=True)
    (tool / "glassformer").write_text(f'#!/bin/sh\nexec {sys.executable} -m glassformer "$@"\n')
    (tool / "glassformer").chmod(0o755)
    env |= {"PATH": f"{tool}:{env['PATH']}", "PYTHONPATH": str(Path(gf.__file__).parent.parent)}
    said = [
        subprocess.run(words, cwd=home, env=env, check=True, capture_output=True, text=True).stdout
        for words in ([sys.executable, "-c", python], ["sh", "-c", shell])
    ]
    wanted = gf.load(run.best).classify("The plot is thin.").label
    assert said[0].strip() == wanted
    assert said[1].splitlines()[1].startswith(wanted)


RECORDS: dict[str, tuple[str, list[str], dict[str, Any]]] = {  # class, what starts fresh, a record
    "masked-lm": ("MaskedLM", [], {"text": "a fine film of 1"}),
    "tagging": ("TokenClassification", ["classifier"],
                {"words": ["a", "film"], "tags": ["O", "B-ART"]}),
    "span": ("QuestionAnswering", ["qa_outputs"],
             {"question": "a film", "context": "a fine film", "id": "1",
              "answers": [{"text": "fine", "answer_start": 2}]}),
    "regression": ("SequenceClassification", ["classifier", "bert.pooler"],
                   {"text": "a fine film of 1", "value": 0.5}),
    "multiple-choice": ("MultipleChoice", ["classifier", "bert.pooler"],
                        {"question": "a film", "choices": ["fine", "dull"], "label": 0}),
    "contrastive": ("MaskedLM", [], {"text": "a fine film", "positive": "a great film"}),
}  # fmt: skip


@pytest.mark.parametrize("objective", RECORDS)
def test_the_card_of_every_task_prints_code_that_works(home, monkeypatch, glassformer, objective):
    monkeypatch.chdir(home)
    head, fresh, record = RECORDS[objective]
    Path(f"{objective}.jsonl").write_text((json.dumps(record) + "\n") * 4)
    tables = recipe(f"card-{objective}", adapter=ADAPTERS["lora"], objective={"name": objective})
    tables["train"] |= {"max_steps": 1, "batch_size": 2}
    tables["data"] |= {"train": f"{objective}.jsonl", "validation": f"{objective}.jsonl"}
    tables["model"] = {"base": "base"}
    if fresh:
        tables["model"] |= {
            "architecture": f"BertFor{head}",
            "init_missing": fresh,
            "ignore_unexpected": ["cls"],
        }
    run = gf.train(tables)
    card = (run.folder / "README.md").read_text()
    python, shell = (re.search(rf"```{x}\n(.*?)```", card, re.DOTALL)[1] for x in ("python", "sh"))
    exec(python, {})
    code, shown, said = glassformer(*shlex.split(shell)[1:])
    assert code == 0 and shown, said


def test_a_run_that_is_not_over(home, monkeypatch, tmp_path):
    monkeypatch.chdir(home)
    run = gf.train(recipe("lora", adapter=ADAPTERS["lora"]))
    copy = home / "runs" / "another-run"
    shutil.copytree(run.folder, copy)
    (copy / "model").rename(tmp_path / "gone")
    best = logits(gf.load(run.best))
    assert torch.equal(logits(gf.load(copy)), best)
    shutil.rmtree(copy / "best")
    assert torch.equal(logits(gf.load(copy)), best)  # the checkpoint
    shutil.rmtree(copy / "state")
    with pytest.raises(GlassformerError, match=r"run has no model yet; .*resumes the run\.$"):
        gf.load(copy)


def test_a_run_is_what_another_starts_from(home, monkeypatch):
    """Its adapter becomes part of the weights, beside which the next one stands."""
    monkeypatch.chdir(home)
    gf.train(recipe("lora", adapter=ADAPTERS["lora"]))
    tables = recipe("further", adapter={"type": "lora", "rank": 1})
    tables["model"] = {"base": "runs/lora"}
    _, wanted = trained(tables, monkeypatch)
    assert torch.equal(logits(gf.load("runs/further")), wanted)
    tables = recipe("whole")
    tables["model"] = {"base": "runs/lora"}
    _, wanted = trained(tables, monkeypatch)
    assert torch.equal(logits(gf.load("runs/whole")), wanted)
    assert transformers.AutoModelForSequenceClassification.from_pretrained("runs/whole/model")


def test_a_tokenizer_of_its_own_goes_along(home, monkeypatch):
    monkeypatch.chdir(home)
    words = {"type": "wordpiece", "vocab_size": 50}
    run, wanted = trained(recipe("reading", tokenizer=words, adapter=ADAPTERS["lora"]), monkeypatch)
    shutil.rmtree(run.tokenizer)
    model = gf.load("runs/reading")
    assert model.tokenizer.size < gf.load("base").tokenizer.size
    assert torch.equal(logits(model), wanted)
    model.adapters.save("again")
    assert torch.equal(logits(gf.load("again")), wanted)


def test_heads_that_were_added_for_several_objectives(home, monkeypatch):
    monkeypatch.chdir(home)
    tables = recipe("several", adapter=ADAPTERS["lora"] | {"target_modules": ["attention.qkv"]})
    tables["model"] = {"base": "base"}
    tables["objective"] = [{"name": "masked-lm"}, {"name": "classification"}]
    _, wanted = trained(tables, monkeypatch)
    model = gf.load("runs/several")
    assert torch.equal(logits(model), wanted)
    assert model.classify(TEXTS[0]).labels[0] in WORDS
