"""The inputs of a run: it resumes only if they are unchanged, and the error names the file."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_resume import TEXT, Interrupting, assert_same_run, metrics, recipe

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.text import train as train_tokenizer
from glassformer.train.interrupt import TrainingInterrupted

STEPS = {"max_steps": 6, "save_steps": 2, "eval_steps": 2}


def edit(path: Path) -> None:
    """Changes a byte of a file and restores its times; the size stays the same."""
    times, data = path.stat(), bytearray(path.read_bytes())
    data[-2] = data[-2] ^ 1
    path.write_bytes(bytes(data))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size and path.stat().st_mtime_ns == times.st_mtime_ns


def stopped(whole: dict, at: int = 3) -> None:
    with pytest.raises(TrainingInterrupted):
        gf.train(whole, reporters=[Interrupting(at)])


def distilling(folder: Path) -> dict:
    """A run with every kind of input: data, a base, a tokenizer, word vectors and a teacher."""
    whole = recipe(folder, "lora", **STEPS)
    base, data = whole["model"]["base"], folder.parent / "data"
    shutil.copytree(base, data / "teacher")
    shutil.copytree(base, data / "tokenizer", ignore=shutil.ignore_patterns("*.safetensors"))
    (data / "tokenizer" / "config.json").unlink()
    letters = [token for token in gf.load(base).tokenizer.vocabulary if len(token) == 1]
    rows = [f"{letter} {' '.join(['0.25'] * 16)}" for letter in letters if letter.strip()]
    (data / "vectors.txt").write_text("\n".join(rows) + "\n")
    (data / "more").mkdir()
    for name in ("a.txt", "b.txt"):
        (data / "more" / name).write_text(TEXT[:300])
    whole["model"]["word_vectors"] = str(data / "vectors.txt")
    whole["tokenizer"] = {"folder": str(data / "tokenizer")}
    whole["data"]["test"] = str(data / "more" / "*.txt")
    whole["objective"] = {
        "name": "distillation",
        "task": "causal-lm",
        "teacher": str(data / "teacher"),
    }
    return whole


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> tuple[dict, Path]:
    """A stopped run of `distilling`."""
    folder = tmp_path_factory.mktemp("inputs") / "run"
    whole = distilling(folder)
    stopped(whole)
    return whole, folder.parent / "data"


INPUTS = {
    "train": "data.train",
    "valid": "data.validation",
    "more/b.txt": "data.test",
    "vectors.txt": "model.word_vectors",
    "base/model.safetensors": "model.base",
    "base/config.json": "model.base",
    "base/tokenizer.json": "model.base",
    "tokenizer/tokenizer.json": "tokenizer.folder",
    "teacher/model.safetensors": "objective.teacher",
}


@pytest.mark.parametrize("name", INPUTS)
def test_a_changed_or_missing_input_is_named(begun, name):
    whole, data = begun
    path, kept = data / name, (data / name).read_bytes()
    said = rf"{name} \({INPUTS[name]}\) "
    try:
        edit(path)
        with pytest.raises(GlassformerError, match=rf"{said}has changed since .*--restart"):
            gf.train(whole)
        path.unlink()
        with pytest.raises(GlassformerError, match=rf"{said}is missing; .*--restart"):
            gf.train(whole)
    finally:
        path.write_bytes(kept)


def test_a_pattern_that_matches_another_file_is_named(begun):
    whole, data = begun
    other = data / "more" / "c.txt"
    other.write_text(TEXT[:100])
    try:
        with pytest.raises(GlassformerError, match=r"c\.txt \(data\.test\) was not there when"):
            gf.train(whole)
    finally:
        other.unlink()


def test_a_stopped_run_goes_on_when_the_inputs_are_as_they_were(tmp_path):
    gf.train(recipe(tmp_path / "whole", **STEPS))
    whole, data = recipe(tmp_path / "run", **STEPS), tmp_path / "data" / "train"
    stopped(whole)
    kept = data.read_bytes()
    edit(data)
    with pytest.raises(GlassformerError, match=r"train \(data\.train\) has changed"):
        gf.train(whole)
    data.write_bytes(kept)  # with another time
    gf.train(whole)
    assert_same_run(tmp_path / "whole", tmp_path / "run")
    edit(data)
    with pytest.raises(GlassformerError, match=r"train \(data\.train\) has changed"):
        gf.train(whole)  # finished, but not with these data
    data.unlink()
    assert gf.train(whole).finished["step"] == 6  # nothing is read any more
    data.write_bytes(kept.replace(b"cat", b"cow"))
    gf.train(whole, restart=True)
    assert metrics(tmp_path / "run") != metrics(tmp_path / "whole")


KILLED = """
import json, os, signal, sys
import glassformer as gf
from glassformer.train.reporter import Reporter

class Killing(Reporter):
    def step(self, entry):
        if entry["step"] == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)

gf.train(json.loads(sys.argv[1]), reporters=[Killing()])
"""


@pytest.mark.parametrize("step", [1, 3], ids=["before the first checkpoint", "after it"])
def test_a_change_after_a_kill(tmp_path, step):
    whole, data = recipe(tmp_path / "run", **STEPS), tmp_path / "data" / "train"
    command = [sys.executable, "-c", KILLED, json.dumps(whole), str(step)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    data.write_text(TEXT.replace("cat", "cow"))  # of the same length, in other letters
    if step == 3:
        with pytest.raises(GlassformerError, match=r"train \(data\.train\) has changed"):
            gf.train(whole)
        return
    gf.train(whole)  # nothing was saved that the old data could be mixed with
    gf.train(recipe(tmp_path / "fresh", **STEPS))
    assert_same_run(tmp_path / "fresh", tmp_path / "run")
    written = [(tmp_path / name / "tokenizer" / "tokenizer.json") for name in ("run", "fresh")]
    assert written[0].read_bytes() == written[1].read_bytes()


def test_the_run_of_an_older_version_goes_on(tmp_path):
    gf.train(recipe(tmp_path / "whole", **STEPS))
    whole, folder = recipe(tmp_path / "run", **STEPS), tmp_path / "run"
    stopped(whole)
    manifest = json.loads((folder / "run.json").read_text())
    del manifest["files"]["inputs.json"]
    manifest["adopted"] = True
    (folder / "run.json").write_text(json.dumps(manifest))
    (folder / "inputs.json").unlink()
    notes = next((folder / "state").glob("*/notes.json"))
    state = json.loads(notes.read_text())
    del state["tokenizer"]
    notes.write_text(json.dumps(state))
    gf.train(whole)
    assert_same_run(tmp_path / "whole", folder)


def test_a_run_without_its_list_of_inputs_does_not_go_on(tmp_path):
    whole, listed = recipe(tmp_path / "run", **STEPS), tmp_path / "run/inputs.json"
    stopped(whole)
    listed.unlink()
    with pytest.raises(GlassformerError, match=r"inputs\.json is gone, .*; --restart starts again"):
        gf.train(whole)
    assert gf.train(whole, restart=True).finished


def test_the_tokenizer_that_the_run_has_trained(tmp_path):
    whole, folder = recipe(tmp_path / "run", **STEPS), tmp_path / "run"
    stopped(whole)
    swapped = TEXT.translate(str.maketrans("ab", "ba"))  # as many tokens, with other numbers
    train_tokenizer("char", texts=[swapped]).save(folder / "tokenizer")
    with pytest.raises(GlassformerError, match=r"The tokenizer of .* has changed since its last"):
        gf.train(whole)


def test_a_checkpoint_on_another_base_is_not_loaded(tmp_path):
    whole, folder = recipe(tmp_path / "run", "lora", **STEPS), tmp_path / "run"
    whole["data"].pop("validation")
    stopped(whole)
    assert len(gf.load(folder).adapters.names) == 1
    model = gf.load(whole["model"]["base"])
    for parameter in model.parameters():
        parameter.data.mul_(1.01)
    model.save(whole["model"]["base"])
    with pytest.raises(GlassformerError, match=r"model\.safetensors \(model\.base\) has changed"):
        gf.load(folder)
