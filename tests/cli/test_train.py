"""glassformer train: recipes, printed output, and ways to end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.train.loop import TrainingLoop

RECIPE = """
[model]
preset = "gpt2"
num_layers = 1
num_heads = 2
hidden_size = 16
context_length = 16
[tokenizer]
type = "char"
[data]
train = "train.txt"
validation = "valid.txt"
[train]
max_steps = 6
batch_size = 4
[run]
out = "run"
"""


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("recipe.toml").write_text(RECIPE)
    for name in ("train.txt", "valid.txt"):
        Path(name).write_text("To be, or not to be, that is the question.\n" * 20)
    return tmp_path


def test_a_run_from_the_command_line(glassformer, here):
    code, _, said = glassformer("train", "recipe.toml", "train.max_steps=3", "train.seed=2")
    assert code == 0
    assert "3 steps done, best " in said and "the model is in run/model" in said
    assert "step      3  loss " in said
    assert gf.load("run/model").tokenizer.size == gf.load("run/best").tokenizer.size
    assert "seed = 2" in (here / "run/recipe.toml").read_text()
    code, _, said = glassformer("train", "recipe.toml", "train.max_steps=3", "train.seed=2")
    assert code == 0 and "3 steps done" in said
    code, _, said = glassformer("train", "recipe.toml", "train.max_steps=4", "train.seed=2")
    assert code == 1 and "train.max_steps: 3 there, 4 here" in said
    code, _, said = glassformer("train", "recipe.toml", "--restart")
    assert code == 0 and "6 steps done" in said


def test_a_dry_run_shows_the_plan_and_writes_nothing(glassformer, here):
    before = sorted(here.rglob("*"))
    code, shown, _ = glassformer("train", "recipe.toml", "--dry-run")
    assert code == 0 and sorted(here.rglob("*")) == before
    for words in ("parameters", "64 a step", "384 in 6 steps", "memory", "tokens/s", "time"):
        assert words in shown, words


def test_bad_recipes_are_one_sentence(glassformer, here):
    code, _, said = glassformer("train", "recipe.toml", "train.learning_rat=1")
    assert code == 1 and "did you mean 'learning_rate'?" in said and "Traceback" not in said
    assert not (here / "run").exists()


def test_control_c_saves_and_says_how_to_go_on(glassformer, here, monkeypatch):
    take = TrainingLoop.train_step

    def pressed(loop):
        if loop.state.step == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return take(loop)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingLoop, "train_step", pressed)
        code, _, said = glassformer("train", "recipe.toml")
    assert code == 130 and "Stopped after step 3 of 6, which is saved in run; the same" in said
    assert [path.name for path in (here / "run/state").iterdir()] == ["step-0000000003"]
    code, _, said = glassformer("train", "recipe.toml")
    assert code == 0 and "6 steps done" in said
