"""glassformer runs: comparison of finished and unfinished run folders."""

from __future__ import annotations

import fcntl
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from made import make_run
from test_train import RECIPE

import glassformer as gf
from glassformer.train.reporter import Reporter


class Dies(Reporter):
    def step(self, entry):
        if entry["step"] == 3:
            raise ZeroDivisionError


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """runs/a and runs/deep/b are finished, runs/deep/c died."""
    folder = tmp_path_factory.mktemp("trained")
    for name in ("train.txt", "valid.txt"):
        (folder / name).write_text("To be, or not to be, that is the question.\n" * 20)
    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE.replace('"train.txt"', f'"{folder}/train.txt"')
                      .replace('"valid.txt"', f'"{folder}/valid.txt"'))  # fmt: skip
    settings = ["train.save_steps=2", "run.logging_steps=1"]
    for name, more in (
        ("a", []),
        ("deep/b", ["model.hidden_size=32", "train.seed=7"]),
        ("deep/c", []),
    ):
        words = [*settings, *more, f"run.out={folder}/runs/{name}"]
        if name == "deep/c":
            with pytest.raises(ZeroDivisionError):
                gf.train(recipe, words, reporters=[Dies()])
        else:
            gf.train(recipe, words)
    return folder / "runs"


def test_a_table_of_runs(glassformer, trained):
    code, shown, _ = glassformer("runs", str(trained))
    assert code == 0
    (heads,) = [line.split() for line in shown.splitlines() if line.startswith("run ")]
    assert heads[-1] == "state"
    whole = [line.split() for line in shown.splitlines() if line.startswith(("a ", "deep/"))]
    run = gf.train(trained / "a/recipe.toml")
    last = [entry for entry in run.entries() if "loss" in entry][-1]
    first = whole[0]
    assert first[1] == "gpt2" and first[3:6] == ["causal-lm", "6", "384"]
    assert first[6:8] == [f"{run.finished['best']:.4f}", f"{last['loss']:.4f}"]
    assert [row[-1] for row in whole[:3]] == ["finished", "finished", "unfinished"]
    assert whole[2][4] == "3/6"
    other = [line.rstrip() for line in shown.splitlines()[-2:]]
    assert other[0] == "model.hidden_size  16 (a, deep/c), 32 (deep/b)"
    assert other[1] == "train.seed         0 (a, deep/c), 7 (deep/b)"


def test_metrics_that_are_damaged_are_named(glassformer, tmp_path):
    folder = make_run(tmp_path / "run", 100, 1000, 2.0)
    (folder / "metrics.jsonl").write_text("{nope\n")
    code, _, said = glassformer("runs", str(folder))
    assert code == 1 and "metrics.jsonl is damaged" in said


def test_json_of_runs(glassformer, trained):
    code, shown, _ = glassformer("runs", str(trained / "a"), str(trained / "deep/*"), "--json")
    said = json.loads(shown)
    assert code == 0 and [run["name"] for run in said["runs"]] == ["a", "deep/b", "deep/c"]
    a, b, c = said["runs"]
    model = gf.load(trained / "deep/b/model")
    assert b["parameters"] == sum(p.numel() for p in model.parameters())
    assert (a["step"], a["steps"], a["tokens"], a["best_name"]) == (6, 6, 384, "loss")
    assert a["tokens_per_second"] > 0 and a["seconds"] == pytest.approx(
        384 / a["tokens_per_second"]
    )
    assert c["best"] is None and c["state"] == "unfinished"
    assert said["differing"] == {"model.hidden_size": [16, 32, 16], "train.seed": [0, 7, 0]}


def test_a_run_that_somebody_trains_is_running(glassformer, trained):
    with (trained / "deep/c/.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _, shown, _ = glassformer("runs", str(trained / "deep/c"), "--json")
    assert json.loads(shown)["runs"][0]["state"] == "running"


def test_a_run_that_has_not_begun_and_one_that_goes_nowhere(glassformer, tmp_path):
    folder = make_run(tmp_path / "run", 100, 1000, None, finished=False)
    for name in ("about.json", "metrics.jsonl"):
        (folder / name).unlink()
    (folder / ".lock").touch()
    code, shown, _ = glassformer("runs", str(tmp_path))
    assert code == 0 and "0/100" in shown
    (folder / "metrics.jsonl").write_text('{"step": 1, "lo')  # being written
    code, shown, _ = glassformer("runs", str(tmp_path))
    assert code == 0 and "0/100" in shown


def test_figures_other_than_the_loss_are_named(glassformer, tmp_path):
    folder = make_run(tmp_path / "run", 100, 1000, 2.0, metric_for_best_model="f1")
    lines = [
        {"step": 50, "valid": {"loss": 1.0, "f1": 0.5}},
        {"step": 60, "valid": {"loss": 2.0, "f1": 0.75}},
    ]
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write("".join(json.dumps(line) + "\n" for line in lines))
    code, shown, _ = glassformer("runs", str(folder))
    assert code == 0 and "f1 0.7500" in shown


def test_a_plot_of_runs(glassformer, trained, tmp_path):
    path = tmp_path / "runs.svg"
    code, _, _ = glassformer("runs", str(trained), "--plot", str(path))
    root = ET.parse(path).getroot()
    legend = [text.text for text in root.iter() if text.get("class") == "legend"]
    assert code == 0 and sorted(legend) == ["a", "deep/b", "deep/c"]
    lines = [line for line in root.iter() if line.tag.endswith("polyline")]
    assert [len(line.get("points").split()) for line in lines] == [6, 6, 3]
    code, _, said = glassformer("runs", str(trained), "--plot", "runs.png")
    assert code == 1 and "ends in .svg" in said
    code, _, said = glassformer("runs", str(trained), "--plot", str(tmp_path / "no/runs.svg"))
    assert code == 1 and "cannot be written" in said


def test_what_is_no_run_is_named(glassformer, tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE)  # somebody's own, of no run
    code, _, said = glassformer("runs", str(tmp_path))
    assert code == 1 and "holds no run; name folders that" in said
    code, _, said = glassformer("runs", str(tmp_path / "nowhere*"))
    assert code == 1 and "does not exist" in said
    folder = make_run(tmp_path / "run", 100, 1000, 2.0)
    (folder / "recipe.toml").write_text("[modle]\n")
    code, _, said = glassformer("runs", str(folder))
    assert code == 1 and "cannot be read: The recipe has no table 'modle'" in said
