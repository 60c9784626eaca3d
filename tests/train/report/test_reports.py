"""Reports in a run folder: events, plots and a card, also after an interruption."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from test_resume import Interrupting, metrics, recipe
from test_svg import lines, read

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.train.interrupt import TrainingInterrupted
from glassformer.train.report.card import render_card
from glassformer.train.report.summary import summarize
from glassformer.train.reporter import Reporter
from glassformer.train.run_folder import Run

SETTINGS = {"max_steps": 12, "save_steps": 5, "eval_steps": 4}


class Dies(Reporter):
    """After a logged step, as if killed: nothing is saved."""

    def __init__(self, step: int) -> None:
        self.at = step

    def step(self, entry):
        if entry["step"] == self.at:
            raise ZeroDivisionError


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Run:
    return gf.train(recipe(tmp_path_factory.mktemp("whole") / "run", **SETTINGS))


@pytest.fixture(scope="module")
def resumed(tmp_path_factory) -> Run:
    """Died before its first checkpoint, died behind it, was stopped, and went on."""
    folder = tmp_path_factory.mktemp("resumed") / "run"
    for reporter, error in (
        (Dies(3), ZeroDivisionError),
        (Dies(8), ZeroDivisionError),
        (Interrupting(9), TrainingInterrupted),
    ):
        with pytest.raises(error):
            gf.train(recipe(folder, **SETTINGS), reporters=[reporter])
    return gf.train(recipe(folder, **SETTINGS))


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder))
    events.Reload()
    assert list(events.Tags()["tensors"]) == ["recipe/text_summary"]
    assert len(events.Tensors("recipe/text_summary")) == 1
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_events_are_what_was_logged(whole):
    found, logged = scalars(whole.folder), metrics(whole.folder)
    steps = [entry for entry in logged if "loss" in entry]
    judged = [entry for entry in logged if "valid" in entry]
    for name in ("loss", "learning_rate", "gradient", "tokens"):
        wanted = [(entry["step"], np.float32(entry[name])) for entry in steps]
        assert found[f"train/{name}"] == wanted
    for name in judged[0]["valid"]:
        wanted = [(entry["step"], np.float32(entry["valid"][name])) for entry in judged]
        assert found[f"valid/{name}"] == wanted
    assert len(found["speed/tokens_per_second"]) == 12
    assert not [tag for tag in found if tag.startswith("parts/")]  # of one part alone


def test_a_run_that_went_on_has_no_events_twice(whole, resumed):
    assert len(list(resumed.folder.glob("events.*"))) == 4
    once, again = scalars(whole.folder), scalars(resumed.folder)
    assert once.keys() == again.keys()
    for tag in once:
        if not tag.startswith("speed/"):
            assert once[tag] == again[tag], tag


def test_plots_show_what_was_logged(whole, resumed):
    logged = metrics(whole.folder)
    steps = [(entry["step"], entry["loss"]) for entry in logged if "loss" in entry]
    judged = [(entry["step"], entry["valid"]["loss"]) for entry in logged if "valid" in entry]
    plots = whole.folder / "plots"
    train, valid = lines(read((plots / "loss.svg").read_text())[0])
    for drawn, wanted in ((train, steps), (valid, judged)):
        assert np.abs(drawn - wanted).max(0) == pytest.approx([0, 0], abs=0.02)
    for name in ("learning_rate", "gradient"):
        wanted = [entry[name] for entry in logged if "loss" in entry]
        (drawn,) = lines(read((plots / f"{name}.svg").read_text())[0], log_y=name == "gradient")
        assert drawn[:, 1] == pytest.approx(wanted, rel=0.01, abs=0.01 * max(wanted))
    for path in plots.iterdir():
        assert path.read_bytes() == (resumed.folder / "plots" / path.name).read_bytes()


def test_plots_are_there_from_the_first_checkpoint(tmp_path):
    with pytest.raises(ZeroDivisionError):
        gf.train(recipe(tmp_path / "run", **SETTINGS), reporters=[Dies(7)])
    (train,) = lines(read((tmp_path / "run/plots/loss.svg").read_text())[0])
    assert len(train) == 5
    assert not (tmp_path / "run/README.md").exists()


def test_the_card_says_what_was_trained(whole, capsys):
    text = (whole.folder / "README.md").read_text()
    card = ModelCard(text)
    assert card.data.library_name == "glassformer"
    assert card.data.pipeline_tag == "text-generation"
    assert card.data.tags == ["glassformer", "causal-lm"]
    best = min(e["valid"]["loss"] for e in metrics(whole.folder) if "valid" in e)
    results = {result.metric_type: result.metric_value for result in card.data.eval_results}
    assert results["loss"] == best == whole.finished["best"]
    model = gf.load(whole.model)
    count = sum(p.numel() for p in model.parameters())
    assert (
        f"| architecture | GPT2LMHeadModel (a new model gpt2) |\n| parameters | {count:,}; " in text
    )
    size = Path(whole.recipe.data.train[0]).stat().st_size
    assert f"| train | {whole.recipe.data.train[0]} | {size:,} |" in text
    tokens = metrics(whole.folder)[-2]["tokens"]
    for said in ("| steps | 12 of 12 |", f"| tokens | {tokens:,} (", "| seed | 5 |", f"{best:.4f}"):
        assert said in text, said
    kept = re.search(r"```toml\n(.*?)```", text, re.DOTALL)[1]
    assert tomllib.loads(kept) == tomllib.loads((whole.folder / "recipe.toml").read_text())
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], {})
    assert capsys.readouterr().out


def test_the_card_of_a_run_whose_log_was_emptied_has_no_loss(whole):
    summary = replace(summarize(whole), entries=())
    text = render_card(summary, {"step": 12, "tokens": 9, "stopped": False, "test": {}})
    assert "| steps | 12 of 12 |" in text
    assert "training loss" not in text


def test_the_card_of_an_adapter_loads_it_beside_its_base(tmp_path):
    run = gf.train(recipe(tmp_path / "run", "lora", max_steps=2, batch_size=1))
    text = (run.folder / "README.md").read_text()
    base = run.recipe.model.base
    assert ModelCard(text).data.base_model == Path(base).name
    about = json.loads((run.folder / "about.json").read_text())
    assert f"of which {about['trained']:,} trained" in text and "(the weights of" in text
    code = re.search(r"```python\n(.*?)print", text, re.DOTALL)[1]
    told: dict = {}
    exec(code, told)
    assert told["model"].score("the cat").total != gf.load(base).score("the cat").total


def test_parameters_of_the_layers_are_those_of_the_formula(whole):
    """12 width^2 a layer with its biases and norms, and the last norm (Kaplan et al., table 1)."""
    about = json.loads((whole.folder / "about.json").read_text())
    width = 16
    assert about["body"] == 12 * width**2 + 13 * width + 2 * width
    (path,) = whole.recipe.data.validation
    assert about["data"]["validation"]["first"] == [[path, Path(path).stat().st_size]]


def test_events_are_a_choice(tmp_path, monkeypatch):
    tables = recipe(tmp_path / "run", max_steps=1)
    gf.train(tables, ["run.tensorboard=false"])
    assert not list((tmp_path / "run").glob("events.*"))

    monkeypatch.setattr("glassformer.train.report.logged.find_spec", lambda name: None)
    for setting, extra in (("run.tensorboard=true", "tensorboard"), ("run.wandb=mine", "wandb")):
        with pytest.raises(GlassformerError, match=rf"needs .*glassformer\[{extra}\]"):
            gf.train(recipe(tmp_path / "other", max_steps=1), [setting])
    assert not (tmp_path / "other").exists()
    assert gf.train(recipe(tmp_path / "without", max_steps=1)).finished
    assert not list((tmp_path / "without").glob("events.*"))
