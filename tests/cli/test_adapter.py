"""--adapter: every verb that takes a model has it, and works with an adapter and with its run."""

from __future__ import annotations

import json

import pytest
import torch
from quick import quick
from test_help import EVERY

import glassformer as gf
from glassformer.adapters import LoRA, active
from glassformer.text import train as train_tokenizer

TEXT = "a fox sat on the mat"
TEXTS = [TEXT, "the cat ran to the log", "a dog and a cat on the mat"]
TAKING = {
    name
    for name, verb in EVERY.items()
    if any(one.name in ("model", "models") for one in getattr(verb, "params", ()))
}


def test_every_verb_that_takes_a_model_takes_an_adapter():
    assert {"classify", "generate", "open", "check", "lens", "evaluate", "watch"} < TAKING
    options = {name: [o for one in EVERY[name].params for o in one.opts] for name in TAKING}
    assert [name for name in sorted(TAKING) if "--adapter" not in options[name]] == []


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A decoder and an encoder, each with an adapter, whose bases are found by their names alone;
    and a run that has published one of them."""
    folder = tmp_path_factory.mktemp("adapters")
    tokenizer = train_tokenizer("wordpiece", texts=TEXTS, vocab_size=60)
    ids = {"vocab_size": tokenizer.size, "bos_token_id": 1, "eos_token_id": 2}
    gpt2 = gf.create(
        "gpt2", tokenizer=tokenizer, n_layer=1, n_head=2, n_embd=16, n_positions=24, **ids
    )
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16}
    sizes |= {"intermediate_size": 24, "max_position_embeddings": 24, "vocab_size": tokenizer.size}
    bert = gf.create("bert-base", tokenizer=tokenizer, architectures=["BertForMaskedLM"], **sizes)
    heads = {
        "init_missing": ["classifier", "bert.pooler"],
        "ignore_unexpected": ["cls"],
        "labels": ["bad", "good"],
    }
    heads["architecture"] = "BertForSequenceClassification"
    for name, model, how in (("gpt2", gpt2, {}), ("bert", bert, heads)):
        model.save(folder / name)
        adapted = gf.load(folder / name, **how).adapters.add(LoRA(rank=2))
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in active(adapted).parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
        adapted.adapters.save(folder / f"{name}-run/model")
        recipe = f'[model]\nfolder = "{name}"\n[data]\ntrain = "data.jsonl"\n'
        (folder / f"{name}-run/recipe.toml").write_text(recipe)
    (folder / "data.jsonl").write_text(
        "".join(
            json.dumps({"text": text, "label": "good", "date": f"2026-11-0{day}"}) + "\n"
            for day, text in enumerate(TEXTS, 1)
        )
    )
    (folder / "notes").mkdir()
    (folder / "notes/a.txt").write_text("\n\n".join(TEXTS))
    return folder


WAYS = {
    "base and adapter": ("{0}", "--adapter", "{0}-run/model"),
    "base and run": ("{0}", "--adapter", "{0}-run"),
    "adapter": ("{0}-run/model",),
    "run": ("{0}-run",),
}


@pytest.mark.parametrize("way", quick(WAYS, "base and adapter", "run"))
def test_the_adapter_is_heard(glassformer, home, monkeypatch, way):
    monkeypatch.chdir(home)

    def said(verb, kind, *words):
        code, shown, error = glassformer(verb, *(word.format(kind) for word in WAYS[way]), *words)
        assert code == 0, error
        return shown

    gpt2, bert = gf.load("gpt2-run"), gf.load("bert-run")
    scored = json.loads(said("score", "gpt2", TEXT, "--json"))
    assert scored["total"] == pytest.approx(gpt2.score(TEXT).total, abs=1e-4)
    assert scored["total"] != pytest.approx(gf.load("gpt2").score(TEXT).total, abs=1e-2)
    written = json.loads(said("generate", "gpt2", TEXT, "--json", "--max-new-tokens", "4"))
    assert written["tokens"] == list(gpt2.generate(TEXT, max_new_tokens=4).tokens)
    found = json.loads(said("classify", "bert", TEXT, "--json"))
    wanted = bert.classify(TEXT)
    assert found["probabilities"] == pytest.approx(wanted.probabilities, abs=1e-5)
    vector = json.loads(said("embed", "bert", TEXT, "--json"))["vector"]
    assert vector == pytest.approx(bert.embed(TEXT).tolist(), abs=1e-5)
    judged = json.loads(said("evaluate", "bert", "data.jsonl", "--n-resamples", "0", "--json"))
    right = [one.label == "good" for one in bert.classify(TEXTS)]
    assert judged["metrics"]["accuracy"]["value"] == pytest.approx(sum(right) / len(right))
    assert "BertForSequenceClassification" in said("inspect", "bert")
    assert json.loads(said("check", "bert", "--json"))["equal"]
    assert json.loads(said("check", "gpt2", "--json"))["equal"]
    assert "BertForSequenceClassification" in said("open", "bert", "--check", "--port", "0")
    said("watch", "bert", "--file", "data.jsonl")


def test_an_index_is_made_with_an_adapter(glassformer, home, tmp_path):
    words = ("--adapter", str(home / "bert-run"), "--texts", str(home / "notes"))
    indexes = {"alone": (), "beside": ("--model", str(home / "bert"))}
    for name, more in indexes.items():
        assert glassformer("index", str(tmp_path / name), *words, *more)[0] == 0
    shown = [glassformer("search", str(tmp_path / name), TEXT, "--json") for name in indexes]
    again = glassformer("search", str(tmp_path / "alone"), TEXT, "--json", *words[:2])
    assert shown[0] == shown[1] == again and shown[0][0] == 0


def test_what_cannot_go_together(glassformer, home):
    adapter = ("--adapter", str(home / "bert-run"))
    data = str(home / "data.jsonl")
    bad = {
        ("watch", "--label", "label", "--file", data, *adapter): "--adapter needs a model",
        ("open", "zoo:stories", "zoo:encoder", *adapter): "--adapter needs exactly one model",
        ("classify", str(home / "bert"), "--adapter", str(home / "gpt2"), "x"): "not an adapter's",
        ("classify", str(home / "bert"), "--adapter", "nowhere", "x"): "There is no folder nowhere",
    }
    for words, wanted in bad.items():
        code, _, said = glassformer(*words)
        assert code == 1 and wanted in said, said
