"""What Weights & Biases is told. In its place stands a small module of that name, which writes down
what it hears and, as the real one does, knows a run again by its id and counts its steps."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from test_resume import Interrupting, metrics, recipe

import glassformer as gf
from glassformer.train.interrupt import TrainingInterrupted

STAND_IN = """
import json
from pathlib import Path

HEARD = Path(__file__).with_name("heard.jsonl")


def heard(**said):
    with HEARD.open("a") as file:
        file.write(json.dumps(said) + "\\n")


class Run:
    def __init__(self, id):
        lines = HEARD.read_text().splitlines() if HEARD.exists() else []
        logged = [said for said in map(json.loads, lines) if said.get("log") == id]
        self.id, self.step = id, max((said["step"] + 1 for said in logged), default=0)

    def log(self, metrics, step):
        assert step >= self.step, "the real one leaves out steps that are over"
        self.step = step
        heard(log=self.id, metrics=metrics, step=step)

    def finish(self):
        heard(finish=self.id)


def init(**said):
    heard(init=said)
    return Run(said["id"])
"""


@pytest.fixture
def heard(tmp_path, monkeypatch):
    place = tmp_path / "site"
    place.mkdir()
    (place / "wandb.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    yield lambda: [json.loads(line) for line in (place / "heard.jsonl").read_text().splitlines()]
    sys.modules.pop("wandb", None)


def test_a_run_that_was_stopped_is_one_run_there(tmp_path: Path, heard):
    """Logged once each, steps that are taken again after a checkpoint among them."""
    said = recipe(tmp_path / "mine", max_steps=8, eval_steps=4, save_steps=2)
    settings = ["run.wandb=project", "run.logging_steps=1"]
    with pytest.raises(TrainingInterrupted):
        gf.train(said, settings, reporters=[Interrupting(3)])
    gf.train(said, settings)
    lines = heard()
    first, second = (line["init"] for line in lines if "init" in line)
    assert first == second
    assert first["project"] == "project" and first["name"] == "mine" and first["resume"] == "allow"
    assert first["dir"] == str(tmp_path / "mine") and first["config"]["train"]["max_steps"] == 8
    assert [line["finish"] for line in lines if "finish" in line] == [first["id"]] * 2
    logged = [(line["step"], line["metrics"]) for line in lines if "log" in line]
    entries = metrics(tmp_path / "mine")
    assert [step for step, _ in logged] == [entry["step"] for entry in entries]
    assert sorted({step for step, _ in logged}) == list(range(1, 9))
    for (_, logged_metrics), entry in zip(logged, entries, strict=True):
        wanted = entry["valid"]["loss"] if "valid" in entry else entry["loss"]
        assert wanted in logged_metrics.values()


def test_another_run_has_another_id(tmp_path: Path, heard):
    for name in ("a", "b"):
        gf.train(recipe(tmp_path / name, max_steps=1), ["run.wandb=project"])
    ids = [line["init"]["id"] for line in heard() if "init" in line]
    assert len(set(ids)) == 2
