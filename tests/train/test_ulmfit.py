"""ULMFiT from end to end: the three recipes of recipes/, on a language so small that it is learned
in seconds. Each text is about one of two subjects, and says so by words that go together."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import glassformer as gf
from glassformer.train.interrupt import TrainingInterrupted
from glassformer.train.recipe import read_recipe
from glassformer.train.reporter import Reporter
from glassformer.train.weight_averaging import has_settled

RECIPES = Path(__file__).parents[2] / "recipes"
WORDS = {"sea": "wave ship sail tide gull mast", "wood": "tree leaf moss bark deer fern"}
SIZES = {"emb_sz": 12, "n_hid": 20, "n_layers": 2}
STEPS = 40
CALM = ["objective.activation_regularization=0.0", "objective.temporal_regularization=0.0"]


def sentence(subject: str, draw: random.Random, words: int) -> str:
    return " ".join(draw.choices(WORDS[subject].split(), k=words))


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder, draw = tmp_path_factory.mktemp("ulmfit"), random.Random(0)
    subjects = list(WORDS)
    general = "\n".join(sentence(draw.choice(subjects), draw, 12) for _ in range(120))
    (folder / "train.txt").write_text(general)
    (folder / "valid.txt").write_text(general[:1500])
    for name, count in (("train.tsv", 48), ("valid.tsv", 16)):
        lines = (f"{sentence(s := draw.choice(subjects), draw, 15)}\t{s}" for _ in range(count))
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def recipe(name: str, folder: Path, **train) -> dict:
    """As published, but for sizes and paths."""
    tables = read_recipe(RECIPES / f"ulmfit-{name}.toml").tables()
    ending = "txt" if name == "language-model" else "tsv"
    tables["data"] |= {"train": str(folder / f"train.{ending}")}
    tables["data"] |= {"validation": str(folder / f"valid.{ending}"), "num_workers": 1}
    if tables["objective"]["name"] == "causal-lm":
        tables["data"]["sequence_length"] = tables["objective"]["memory_length"] = 14
        tables["train"]["batch_size"] = 8
    if name == "language-model":
        tables["model"]["config"] = {**tables["model"]["config"], **SIZES}
        tables["train"] |= {"averaging_patience": 1, "learning_rate": 8.0}
    else:
        earlier = {"fine-tuning": "language-model", "classifier": "fine-tuning"}[name]
        tables["model"]["base"] = str(folder / earlier / "best")
    tables["train"] |= {"max_steps": STEPS, "eval_steps": 4, "save_steps": 0} | train
    tables["run"] = {"out": str(folder / name), "tensorboard": False, "logging_steps": 1}
    return tables


def lines(folder: Path) -> list[dict]:
    entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in entry.items() if k != "speed"} for entry in entries]


def notes(folder: Path) -> dict:
    (state,) = (folder / "state").iterdir()
    return json.loads((state / "notes.json").read_text())


class Watch(Reporter):
    """Keeps what every checkpoint holds, and asks to stop at some steps."""

    def __init__(self, folder: Path, stops: tuple[int, ...]) -> None:
        self.folder, self.stops = folder, stops
        self.seen: dict[int, dict[str, torch.Tensor]] = {}

    def step(self, entry):
        if entry["step"] in self.stops:
            os.kill(os.getpid(), signal.SIGINT)

    def save(self):
        (state,) = (self.folder / "state").iterdir()
        self.seen[notes(self.folder)["step"]] = load_file(next(state.glob("*.safetensors")))


@pytest.fixture(scope="module")
def language_model(place) -> Path:
    return gf.train(recipe("language-model", place)).folder


@pytest.fixture(scope="module")
def fine_tuned(place, language_model) -> Path:
    said = recipe("fine-tuning", place)
    said["train"]["learning_rate"] = 0.02  # so few steps
    return gf.train(said).folder


def test_averaging_begins_when_evaluations_get_worse(language_model):
    judged = [line["valid"]["loss"] for line in lines(language_model) if "valid" in line]
    at = next(n for n in range(2, len(judged)) if judged[n] > min(judged[: n - 1]))
    said = notes(language_model)
    assert said["averaging_start"] == 4 * (at + 1) < STEPS
    assert said["metric_history"] == pytest.approx(judged[: at + 1])
    assert min(judged) == judged[-1] < judged[0]  # the mean of noisy weights is the best


def test_the_average_is_the_mean_of_all_weights_since(place, language_model):
    """Weights of every step, seen as the run goes by again, stopped now and then."""
    since = notes(language_model)["averaging_start"]
    said = recipe("language-model", place, save_steps=1)
    said["run"]["out"] = str(place / "again")
    watch = Watch(place / "again", stops=(since // 2, since + 1, STEPS - 4))
    for _ in watch.stops:
        with pytest.raises(TrainingInterrupted):
            gf.train(said, reporters=[watch])
    gf.train(said, reporters=[watch])
    assert sorted(watch.seen) == list(range(1, STEPS + 1))
    for name in (name for name in watch.seen[STEPS] if name.startswith("average.")):
        own = name.replace("average.", "weights.")
        assert torch.equal(watch.seen[since][name], watch.seen[since][own])
        mean = torch.stack([watch.seen[n][own].double() for n in range(since, STEPS + 1)]).mean(0)
        assert (watch.seen[STEPS][name] - mean).abs().max() < 1e-5 * max(1.0, mean.abs().max())
    assert lines(place / "again") == lines(language_model)


def test_a_classifier_learns_from_what_a_language_model_knows(place, fine_tuned):
    judged = [line["valid"]["loss"] for line in lines(fine_tuned) if "valid" in line]
    assert judged[-1] < judged[0]
    said = recipe("classifier", place, batch_size=16, gradual_unfreezing_steps=6, bptt=6)
    run = gf.train(said)
    assert run.finished["best"] == 1.0
    best = gf.load(run.best).eval()
    assert best.spec.labels == ("sea", "wood") and best.spec.heads[0].pooling == "concat"


def test_the_recipes_say_what_the_papers_say():
    first, second, third = (
        read_recipe(RECIPES / f"ulmfit-{name}.toml")
        for name in ("language-model", "fine-tuning", "classifier")
    )
    assert (first.train.optimizer, first.train.averaging_patience, first.train.max_grad_norm) == (
        "sgd",
        5,
        0.25,
    )
    for one in (second, third):
        assert (one.train.cut_fraction, one.train.ratio, one.train.options["betas"]) == (
            0.1,
            32,
            (0.7, 0.99),
        )
        assert round(1 / one.train.layerwise_lr_decay, 3) == 2.6
    assert third.train.gradual_unfreezing_steps and third.train.bptt == 70


@pytest.mark.parametrize(
    ("before", "now", "settled"),
    [
        ([], 5.0, False),
        ([5.0, 4.0], 4.5, False),  # not two evaluations ago
        ([5.0, 4.0, 4.2, 4.1], 4.05, True),
        ([5.0, 4.0, 4.2, 4.1], 3.9, False),
        ([5.0, 4.0, 3.0, 3.0], 3.5, False),  # better than all that are long ago
    ],
)
def test_evaluations_settle(before, now, settled):
    assert has_settled("loss", before, now, 2) is settled


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (["train.ema_decay=0.9"], "Give one of train.ema_decay and train.averaging_patience"),
        (["train.eval_steps=0"], "counts evaluations"),
        (["model.preset=gpt2", "model.config={}"], "activation is for recurrent layers"),
        (
            ["model.preset=gpt2", "model.config={}", "train.bptt=9", *CALM],
            "train.bptt is for recurrent layers",
        ),
    ],
)
def test_what_does_not_fit(place, said, why):
    whole = recipe("language-model", place)
    whole["run"]["out"] = str(place / "bad")
    if "model.preset=gpt2" in said:
        said = [
            *said,
            "model.num_layers=1",
            "model.hidden_size=16",
            "model.num_heads=2",
            "model.context_length=32",
        ]
    with pytest.raises(gf.GlassformerError, match=why):
        gf.train(whole, said, restart=True)
