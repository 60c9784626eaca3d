"""JSON files of a run folder from elsewhere: of another form they are refused in a sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_resume import Interrupting, recipe

import glassformer as gf
from glassformer.storage.parsing import has_form
from glassformer.train.checkpointing import read_progress
from glassformer.train.compare_runs import curves, find_runs
from glassformer.train.interrupt import TrainingInterrupted
from glassformer.train.run_records import PROGRESS, read_record
from glassformer.train.saved_steps import snapshots
from glassformer.train.stored_recipe import read_stored_recipe


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Path:
    """A run that was interrupted; its manifest lists files of any content."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    with pytest.raises(TrainingInterrupted):
        gf.train(recipe(folder, max_steps=6, save_steps=2), reporters=[Interrupting(3)])
    manifest = json.loads((folder / "run.json").read_text())
    manifest["files"] = {key: [] for key in manifest["files"]}
    (folder / "run.json").write_text(json.dumps(manifest))
    how = {"step": 3, "best": 1.0, "best_step": 2, "stopped": False}
    (folder / "finished.json").write_text(json.dumps(how))
    return folder


def use(folder: Path) -> None:
    (found,) = find_runs([str(folder)])
    found.plain()
    found.run.data_summary  # noqa: B018 - reads the file
    curves([found], ["run"])
    for snapshot in snapshots(folder):
        snapshot.loss  # noqa: B018 - reads the log
    (folder / "finished.json").unlink()
    gf.train(folder)


CHANGES: dict[str, list[Callable[[dict[str, Any]], Any]]] = {
    "about.json": [
        lambda about: about.pop("parameters"),
        lambda about: about.update(parameters="many"),
        lambda about: about.update(data=[]),
        lambda about: about["data"].update(train={"count": 1}),
    ],
    "finished.json": [
        lambda how: how.pop("stopped"),
        lambda how: how.update(best="low"),
        lambda how: how.update(best_step=[]),
    ],
    "data_summary.json": [
        lambda summary: summary.pop("splits"),
        lambda summary: summary["splits"]["train"].pop("tally"),
        lambda summary: summary["splits"]["train"]["tally"].update(labels=[1]),
        lambda summary: summary["splits"]["train"]["tally"].update(other=1),
    ],
    "inputs.json": [
        lambda inputs: inputs.update({"data.train": ["a"]}),
        lambda inputs: inputs.update({"data.train": {"a": 5}}),
    ],
    "notes.json": [
        lambda notes: notes.pop("step"),
        lambda notes: notes.update(step="2"),
        lambda notes: notes.update(tokens=2**64),
        lambda notes: notes.update(metric_history=5),
    ],
    "metrics.jsonl": [
        lambda entry: entry.pop("step"),
        lambda entry: entry.update(step=None),
        lambda entry: entry.update(valid=[1]),
        lambda entry: entry.update(loss="low"),
        lambda entry: entry.pop("gradient"),
        lambda entry: entry.update(loss=1.0, tokens=1, speed={}),
    ],
}


@pytest.mark.parametrize(
    ("name", "change"), [(name, change) for name, changes in CHANGES.items() for change in changes]
)
def test_a_file_of_another_form_is_named(begun, tmp_path, name, change):
    """In a copy, whose paths are those of the run."""
    kept = tmp_path / "kept"
    shutil.copytree(begun, kept)
    try:
        (path,) = begun.rglob(name)
        first, _, rest = path.read_text().partition("\n")
        lines = name.endswith(".jsonl")
        content = json.loads(first if lines else path.read_text())
        change(content)
        path.write_text(json.dumps(content) + "\n" + (rest if lines else ""))
        with pytest.raises(gf.LoadError, match=name.replace(".", r"\.")):
            use(begun)
    finally:
        shutil.rmtree(begun)
        shutil.copytree(kept, begun)


def test_a_run_as_it_was_written_is_read(begun, tmp_path):
    copy = shutil.copytree(begun, tmp_path / "copy")
    (copy / "finished.json").unlink()
    (found,) = find_runs([str(copy)])
    assert found.plain()["step"] == 4 and found.run.data_summary is not None


def test_forms():
    form = {"a": int, "b?": [float], "c?": {"*": str}, "d?": (str, None)}
    for good in ({"a": 1}, {"a": 1, "b": [1, None, 0.5], "c": {"x": "y"}, "d": None, "more": []}):
        assert has_form(good, form)
    wrong = ({}, {"a": True}, {"a": 2**63}, {"a": 1, "b": 5}, {"a": 1, "c": {"x": 1}}, [], None)
    for bad in (*wrong, {"a": 1, "d": 5}):
        assert not has_form(bad, form)


def test_progress_of_version_0_1(tmp_path):
    old = {
        "step": 1,
        "tokens": 8,
        "best": None,
        "stale": 0,
        "epoch": 9,
        "judged": [],
        "averaged": 0,
    }
    (tmp_path / "notes.json").write_text(json.dumps(old))
    assert read_record(tmp_path / "notes.json", PROGRESS) == old


@pytest.mark.parametrize(
    "tables",
    ["train = 5", "data = 1.5", "[[data]]\ntrain = 1", "objective = 3", "[train]\noptimizer = []",
     "[train]\nsave_every = 5", "[train]\nsave_every = 5\n[data]\ntrain = []"],
)  # fmt: skip
def test_a_stored_recipe_of_another_form(tmp_path, tables):
    (tmp_path / "recipe.toml").write_text(tables + "\n")
    with pytest.raises(gf.GlassformerError):
        read_stored_recipe(tmp_path / "recipe.toml")


def test_a_checkpoint_of_another_step_than_its_folder(begun, tmp_path):
    copy = Path(shutil.copytree(begun, tmp_path / "run"))
    (copy / "finished.json").unlink()
    (notes,) = copy.glob("state/*/notes.json")
    notes.write_text(json.dumps(json.loads(notes.read_text()) | {"step": 2**31 - 1}))
    with pytest.raises(gf.LoadError, match=r"is of step 2147483647, .*--restart"):
        read_progress(notes.parent)


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, (5).to_bytes(8, "little") + b"{nope"])
def test_a_damaged_checkpoint_is_named(begun, tmp_path, content):
    copy = Path(shutil.copytree(begun, tmp_path / "kept"))
    try:
        (begun / "finished.json").unlink()
        for path in (begun / "state").rglob("*.safetensors"):
            path.write_bytes(content)
        with pytest.raises(gf.LoadError, match=r"The checkpoint .* is damaged .*--restart"):
            gf.train(begun)
    finally:
        shutil.rmtree(begun)
        shutil.copytree(copy, begun)
