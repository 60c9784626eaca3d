"""Runs of a number of epochs, and validation by a fraction of the training records."""

from __future__ import annotations

import pytest
from test_resume import Interrupting, assert_same_run, recipe

import glassformer as gf
from glassformer.data import DataSettings, Records
from glassformer.errors import GlassformerError
from glassformer.train.interrupt import TrainingInterrupted
from glassformer.train.recipe import TrainSettings, read_recipe
from glassformer.train.schedules import schedule


@pytest.mark.parametrize(("epochs", "steps"), [(1, 8), (3, 23), (0.1, 1), (0.001, 1), (2.0, 15)])
def test_epochs_become_steps(epochs, steps):
    settings = TrainSettings(epochs=epochs, warmup_ratio=0.5).with_num_steps(7.5)
    assert settings.num_training_steps == settings.max_steps == steps
    assert settings.num_warmup_steps == -(-steps // 2)
    ends = TrainSettings(max_steps=steps, warmup_ratio=0.5)
    assert schedule(settings)(steps - 1) == schedule(ends)(steps - 1)


def test_steps_or_epochs():
    assert TrainSettings().max_steps == 1000
    with pytest.raises(GlassformerError, match=r"one of train\.max_steps and train\.epochs"):
        TrainSettings(max_steps=5, epochs=1)


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_a_run_of_epochs_goes_on_after_a_stop(tmp_path, kind):
    def whole(name):
        tables = recipe(tmp_path / name, kind, epochs=0.5, save_steps=3, eval_steps=4)
        del tables["train"]["max_steps"]
        return tables

    run = gf.train(whole("whole"))
    steps = run.finished["step"]
    assert run.recipe.train.max_steps is None
    assert f"{steps} of {steps}" in (run.folder / "README.md").read_text()
    twice = whole("twice")
    twice["train"]["epochs"] = 1.0
    assert gf.train(twice).finished["step"] in (2 * steps, 2 * steps - 1)
    with pytest.raises(TrainingInterrupted):
        gf.train(whole("stopped"), reporters=[Interrupting(3)])
    gf.train(whole("stopped"))
    assert_same_run(run.folder, tmp_path / "stopped")


def test_a_fraction_is_held_out(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {i}\n" for i in range(95)))
    settings = DataSettings(train=(str(path),), validation=0.1, document_boundary="line")
    parts = {
        split: [record["text"] for record in Records(settings, split, seed=3)]
        for split in ("train", "validation")
    }
    assert len(parts["validation"]) in (9, 10)
    assert sorted(parts["train"] + parts["validation"]) == sorted(path.read_text().splitlines())
    again = [record["text"] for record in Records(settings, "validation", seed=3)]
    other = [record["text"] for record in Records(settings, "validation", seed=4)]
    assert again == parts["validation"] != other
    most = DataSettings(train=(str(path),), validation=0.75, document_boundary="line")
    assert len(list(Records(most, "validation"))) == 71


def test_pieces_of_a_document_that_is_divided_begin_anew(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a line of text\n" * 60_000)
    settings = DataSettings(train=(str(path),), validation=0.25)
    learned, held = (list(Records(settings, split)) for split in ("train", "validation"))
    assert len(learned) > 2 * len(held) > 0
    assert held[0]["begins"]
    assert sum(record["begins"] for record in learned) > 1


@pytest.mark.parametrize("fraction", [0.0, 1.0, 2.5])
def test_a_fraction_lies_between_0_and_1(fraction):
    with pytest.raises(GlassformerError, match=r"data\.validation is .* between 0 and 1"):
        DataSettings(train=("a.txt",), validation=fraction)


def test_too_few_records_to_hold_some_out(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one document\n")
    settings = DataSettings(train=(str(path),), validation=0.5, document_boundary="line")
    with pytest.raises(GlassformerError, match="too few records to hold some out"):
        for split in ("train", "validation"):
            list(Records(settings, split).strict())


def test_a_run_with_a_fraction_goes_on_after_a_stop(tmp_path):
    def whole(name):
        tables = recipe(tmp_path / name, max_steps=8, save_steps=3, eval_steps=4)
        tables["data"] |= {"validation": 0.2, "document_boundary": "line"}
        return tables

    run = gf.train(whole("whole"))
    assert [entry for entry in run.entries() if "valid" in entry]
    with pytest.raises(TrainingInterrupted):
        gf.train(whole("stopped"), reporters=[Interrupting(3)])
    gf.train(whole("stopped"))
    assert_same_run(run.folder, tmp_path / "stopped")
    assert read_recipe(run.folder / "recipe.toml").data.validation == 0.2
