"""A run that is killed at any moment resumes with bit-identical results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from quick import quick
from safetensors.torch import load_file

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.text import train as train_tokenizer
from glassformer.train.interrupt import TrainingInterrupted
from glassformer.train.reporter import Reporter
from glassformer.train.run_folder import Run
from glassformer.train.trainer import dry_run

TEXT = "the cat sat on the mat and the dog sat on the log while the sun went down.\n" * 20
MOMENTS = [
    (
        "glassformer.train.batches.memmap_dataset.MemmapWriter.close",
        0,
    ),  # while the data is prepared
    ("glassformer.train.loop.TrainingLoop.train_step", 0),  # before the first step
    ("glassformer.train.loop.TrainingLoop.train_step", 2),  # before the first checkpoint
    # while the first is written
    ("torch.distributed.checkpoint.hf_storage.HuggingFaceStorageWriter.write_data", 0),
    ("glassformer.train.manifest.Manifest.install", 1),  # its files are not yet listed
    ("glassformer.train.precision.Precision.backward", 9),  # in the middle of accumulation
    ("glassformer.train.precision.Precision.backward", 3),  # ... of the step after a checkpoint
    (
        "glassformer.train.checkpointing.write_synced",
        0,
    ),  # tensors are written, progress is not
    ("glassformer.train.checkpointing.sync_folder", 2),  # before it gets its name
    ("glassformer.train.checkpointing.sync_folder", 3),  # after: the older one is still there
    ("glassformer.train.manifest.Manifest._remove", 0),  # while the older one is taken away
    (
        "glassformer.train.weight_averaging.WeightAverage.update",
        4,
    ),  # weights have changed, averages have not
    ("glassformer.train.run_folder.Run.log", 1),  # a step is done, and not logged
    ("glassformer.model.Model.save", 0),  # while the best model is written
    ("os.replace", 3),
    ("glassformer.train.run_folder.Run.finish", 0),  # at the very end
]
FEW = [
    ("glassformer.train.precision.Precision.backward", 9),
    ("glassformer.train.checkpointing.sync_folder", 2),
    (0.3, 0),
]
RUNS = {
    "full": (
        {
            "preset": "gpt2",
            "num_layers": 1,
            "num_heads": 2,
            "hidden_size": 16,
            "context_length": 16,
        },
        {"name": "causal-lm"},
        {"gradient_accumulation_steps": 2, "ema_decay": 0.9},
    ),
    "float16": (
        {
            "preset": "gpt2",
            "num_layers": 1,
            "num_heads": 2,
            "hidden_size": 16,
            "context_length": 16,
        },
        {"name": "causal-lm"},
        {"gradient_accumulation_steps": 2, "precision": "float16"},
    ),
    "lora": (
        {"base": "base"},  # a small one beside the data
        {"name": "causal-lm"},
        {},
    ),
    "electra": (
        {
            "preset": "electra-small",
            "num_layers": 1,
            "num_heads": 4,
            "hidden_size": 16,
            "context_length": 16,
        }
        | {"config": {"embedding_size": 16}},
        {"name": "replaced-token"},
        {},
    ),
    "mixture": (
        {
            "preset": "gpt2",
            "num_layers": 1,
            "num_heads": 2,
            "hidden_size": 16,
            "context_length": 16,
        },
        [{"name": "causal-lm"}, {"name": "causal-lm", "weight": 0.5}],
        {},
    ),
}


def recipe(folder: Path, kind: str = "full", **train) -> dict:
    model, objective, extra = RUNS[kind]
    data = folder.parent / "data"
    data.mkdir(exist_ok=True)
    for name, text in (("train", TEXT), ("valid", TEXT[:120])):
        if not (data / name).exists():
            (data / name).write_text(text)
    special = {"mask": "<mask>", "cls": "<cls>", "sep": "<sep>"} if kind == "electra" else {}
    if kind == "lora":
        model = {"base": str(data / "base")}
        if not (data / "base").exists():
            tokenizer = train_tokenizer("char", texts=[TEXT])
            sizes = {"n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16}
            sizes |= {"vocab_size": tokenizer.size, "bos_token_id": 1, "eos_token_id": 2}
            gf.create("gpt2", tokenizer=tokenizer, **sizes).save(data / "base")
    adapted = {"adapter": {"type": "lora", "rank": 2}} if kind == "lora" else {}
    learned = {"tokenizer": {"type": "char", "special_tokens": special}} if kind != "lora" else {}
    return {
        "model": model,
        **learned,
        **adapted,
        "data": {"train": str(data / "train"), "validation": str(data / "valid")},
        "objective": objective,
        "train": {
            "max_steps": 32,
            "batch_size": 4,
            "learning_rate": 0.01,
            "warmup_steps": 2,
            "seed": 5,
        }
        | {"save_steps": 3, "eval_steps": 4}
        | extra
        | train,
        "run": {"out": str(folder), "logging_steps": 1},
    }


def metrics(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "speed"} for line in lines]


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def assert_same_run(one: Path, other: Path) -> None:
    """State, metrics and models; and nothing was left behind."""
    assert metrics(one) == metrics(other)
    states = [list((folder / "state").iterdir()) for folder in (one, other)]
    assert [len(state) for state in states] == [1, 1]
    (mine,), (theirs,) = states
    assert mine.name == theirs.name
    notes = [json.loads((state / "notes.json").read_text()) for state in (mine, theirs)]
    assert notes[0] == notes[1]
    for file in mine.glob("*.safetensors"):
        ours, others = load_file(file), load_file(theirs / file.name)
        assert ours.keys() == others.keys() and len(ours) > 10
        assert [name for name in ours if not torch.equal(ours[name], others[name])] == []
    for part in ("model", "best"):
        mine, theirs = files(one / part), files(other / part)
        assert mine.keys() == theirs.keys()
        assert [name for name in mine if mine[name] != theirs[name]] == []
    left = [path.name for path in other.rglob("*draft*")]
    assert left == []


@pytest.fixture(scope="module")
def killed(tmp_path_factory, pytestconfig) -> Path:
    """A folder with a run of every kind, or without --all of one, that was killed repeatedly."""
    folder = tmp_path_factory.mktemp("killed")
    kinds = RUNS if pytestconfig.getoption("all") else ("full",)
    many = MOMENTS if pytestconfig.getoption("all") else MOMENTS[::3]
    moments = {kind: many if kind == "full" else FEW for kind in kinds}
    runs = [(recipe(folder / kind, kind), moments[kind]) for kind in kinds]
    (folder / "runs.json").write_text(json.dumps(runs))
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "killed.py", folder / "runs.json"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.mark.parametrize("kind", quick(RUNS))
def test_a_run_that_is_killed_at_any_moment_goes_on_to_the_same_bits(killed, kind):
    whole = killed / f"whole-{kind}"
    gf.train(recipe(whole, kind))
    assert_same_run(whole, killed / kind)


class Interrupting(Reporter):
    """Presses Ctrl-C after so many logged steps."""

    def __init__(self, step: int) -> None:
        self.at = step

    def step(self, entry):
        if entry["step"] == self.at:
            os.kill(os.getpid(), 2)


def test_an_interrupted_run_is_saved_and_says_how_to_go_on(tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    gf.train(recipe(whole))
    with pytest.raises(
        TrainingInterrupted, match=r"Stopped after step 6 of 32, which is saved in .*same"
    ):
        gf.train(recipe(stopped), reporters=[Interrupting(5)])
    gf.train(recipe(stopped))
    assert_same_run(whole, stopped)


@pytest.mark.parametrize(("kind", "refused"), [("full", False), ("electra", True)])
def test_a_run_of_an_older_version_goes_on_if_it_makes_no_random_choices(tmp_path, kind, refused):
    stopped = recipe(tmp_path / "run", kind)
    with pytest.raises(TrainingInterrupted):
        gf.train(stopped, reporters=[Interrupting(5)])
    (progress,) = (tmp_path / "run").glob("state/step-*/notes.json")
    values = json.loads(progress.read_text())
    assert values.pop("random_choices") == 2
    progress.write_text(json.dumps(values))  # as version 0.1 wrote it
    if refused:
        with pytest.raises(GlassformerError, match=r"was started by an older version, .*--restart"):
            gf.train(stopped)
    else:
        gf.train(stopped)


def test_an_early_stop_is_remembered(tmp_path, monkeypatch):
    """Killed when it had stopped early and that was not yet written down."""
    settings = {
        "learning_rate": 1e-12,
        "early_stopping_patience": 1,
        "eval_steps": 2,
        "max_steps": 50,
    }
    folder = tmp_path / "run"
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(Run, "finish", lambda run, how: 1 / 0)
        gf.train(recipe(folder, **settings))
    stopped = metrics(folder)
    gf.train(recipe(folder, **settings))
    assert metrics(folder) == stopped and stopped[-1]["step"] < 50
    assert json.loads((folder / "finished.json").read_text())["stopped"]


def test_a_dry_run_writes_nothing(tmp_path):
    whole = recipe(tmp_path / "run")
    before = sorted(tmp_path.rglob("*"))
    plan = dry_run(whole)
    assert sorted(tmp_path.rglob("*")) == before
    assert plan.steps == 32 and plan.tokens_step == 2 * 4 * 16
    assert plan.seconds_step > 0 and plan.memory.activations > 0
    model = gf.train({**whole, "train": {**whole["train"], "max_steps": 1}}).model
    assert plan.parameters == sum(p.numel() for p in gf.load(model).parameters())
    assert plan.memory.weights == 4 * plan.parameters
    assert plan.memory.optimizer >= 8 * plan.parameters
