"""recipes/measure.py: the remaining trials, their order, and a trial in separate processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def measure(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "recipes"))
    import measure

    import bench

    monkeypatch.setattr(bench, "RESULTS", tmp_path)
    return measure


def asked(*what: str, seeds: str = "1,2", modes: str = "full,lora"):
    return Namespace(what=what, seeds=seeds, modes=modes, trial=False)


def test_comparisons_come_seed_by_seed_and_sides_in_turn(measure):
    found = list(measure.comparisons(asked("lm", "classify/sst2", "multi30k/de-en", "entities")))
    first = [(one.name, one.mode) for one in found if one.seed == 1]
    assert first == [("lm", "full"), ("sst2", "full"), ("sst2", "lora"), ("de-en", "full"),
                     ("wnut17", "full"), ("wikiann", "full"), ("resume-ner", "full")]  # fmt: skip
    assert [(one.name, one.mode) for one in found if one.seed == 2] == first[1:]
    sides = {(one.name, one.mode, one.seed): [key for key, _ in one.jobs()] for one in found}
    assert sides["sst2", "lora", 1] == ["lora glassformer 1", "lora transformers 1"]
    assert sides["sst2", "lora", 2] == ["lora transformers 2", "lora glassformer 2"]
    assert sides["de-en", "full", 2] == ["theirs 2", "ours 2"]
    for word, said in (("poems", "there are classify"), ("classify/x", "classify has sst2")):
        with pytest.raises(SystemExit, match=said):
            list(measure.comparisons(asked(word)))


def test_what_was_measured_in_a_crowd_is_left(measure, tmp_path):
    (one,) = measure.comparisons(asked("classify/sst2", seeds="1", modes="full"))
    keys = ["full glassformer 1", "full transformers 1"]
    assert [key for key, _ in one.left(3)] == keys
    for note, left in (({}, keys), ({"at once": 4}, keys), ({"at once": 3}, [])):
        found = {key: {"accuracy": 0.9, "seconds": 1.0, **note} for key in keys}
        (tmp_path / "sst2.json").write_text(json.dumps(found))
        assert [key for key, _ in one.left(3)] == left


@pytest.mark.slow
def test_a_trial_in_two_processes(tmp_path):
    """Results are where the tables are made from."""
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes", ignore=lambda *_: ["results"])
    data = tmp_path / "data" / "multi30k"
    data.mkdir(parents=True)
    for split in ("train", "val", "test_2016_flickr"):
        for side in ("de", "en", "fr"):
            lines = (
                f"the miller {'old ' * (i % 4)}walked to the river {side}.\n" for i in range(24)
            )
            (data / f"{split}.{side}").write_text("".join(lines))

    command = [sys.executable, "recipes/measure.py", "multi30k/de-en", "multi30k/de-en-prefix",
               "--trial", "--seeds", "2", "--at-once", "2"]  # fmt: skip
    around = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    said = subprocess.run(
        command, cwd=tmp_path, env=around, check=True, capture_output=True, text=True
    ).stdout
    assert said.count("\n") == 4 and "FAILED" not in said and said.endswith("0 left\n"), said
    found = json.loads((tmp_path / "runs/trial/results/written-de-en.json").read_text())
    assert list(found) == ["theirs 2", "ours 2"]
    assert all(one["at once"] == 2 and one["seconds"] > 0 for one in found.values())
