"""Run folders that came from elsewhere: nothing outside of the folder is written, removed or waited
for, whatever its manifest says and whatever stands in the place of its files."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from faults import attempt
from quick import quick
from recorded import recorded
from test_resume import Interrupting, files, recipe

import glassformer as gf
from glassformer.train.interrupt import TrainingInterrupted

STEP = "state/step-0000000004"
PLACES = (
    *(".lock", ".run.json.draft", "run.json", "recipe.toml", "metrics.jsonl", "about.json"),
    *("finished.json", "README.md", "plots/loss.svg", "best/config.json", f"{STEP}/notes.json"),
    *("tokenizer/tokenizer.json", "state", "best", "plots", "tokenizer", "data", "model", STEP),
    "drafts",
)
STANDINS = ("link to a file", "link to a folder", "link to nothing", "pipe", "folder")
CONTENTS = {
    "files that are a number": {"files": {"a": 3}},
    "files in a list": {"files": ["a"]},
    "no files": {"files": None},
    "digests that are numbers": {"files": {"a": [3]}},
    "a file above": {"files": {"../outside/target.txt": []}, "clearing": True},
    "a file by its whole path": {"files": {"/etc/hostname": []}, "clearing": True},
    "the folder itself": {"files": {"": [], ".": [], "a//b": []}, "clearing": True},
    "a name with a null": {"files": {"a\0b": []}, "clearing": True},
    "a name that is too long": {"files": {"x" * 300: []}, "clearing": True},
    "a file by a link": {"files": {"link/target.txt": []}, "clearing": True},
    "a folder by a link": {"appearing": {"link": []}, "clearing": True},
    "a pattern by a link": {"appearing": {"link/*": []}, "clearing": True},
    "every folder": {"appearing": {"**": ["mine.txt"]}, "clearing": True},
    "an empty pattern": {"appearing": {"": []}},
    "a pattern that is the folder": {"appearing": {".": []}, "clearing": True},
    "a pattern that is none": {"appearing": {"[": []}},
    "patterns in a list": {"appearing": []},
    "a number in place of names": {"appearing": {"a": 3}},
    "clearing that is a text": {"clearing": "no"},
    "an id that is a number": {"id": 3},
    "an id that is a path": {"id": "/../../outside"},
    "an id with a null": {"id": "a\0b"},
    "an empty id": {"id": ""},
    "a format that is a text": {"format": "one"},
    "a newer format": {"format": 99},
}


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Path:
    """A run of six steps that was interrupted at the fourth, in "run" and "copy"."""
    home = tmp_path_factory.mktemp("begun")
    with pytest.raises(TrainingInterrupted):
        gf.train(settings(home / "run"), reporters=[Interrupting(3)])
    (home / "run" / "mine.txt").write_text("mine")
    (home / "run").rename(home / "copy")
    (home / "outside").mkdir()
    (home / "outside" / "target.txt").write_text("outside")
    return home


def settings(folder: Path) -> dict:
    return recipe(folder, max_steps=6, save_steps=2, eval_steps=2)


@pytest.fixture
def run(begun) -> Path:
    """The interrupted run; where it is and where its data is, is stored in it."""
    shutil.rmtree(begun / "run", ignore_errors=True)
    return Path(shutil.copytree(begun / "copy", begun / "run", symlinks=True))


def assert_kept_inside(run: Path, restart: bool) -> None:
    """Training goes on, or is refused with a sentence; all that is outside is as it was."""
    top, whole = run.parent, settings(run)
    outside, mine = files(top / "outside"), (run / "mine.txt").read_bytes()
    ended = attempt(lambda: gf.train(whole, restart=restart), run)
    assert ended.outside == [] and ended.unsynced == []
    assert ended.finished or ended.message is not None
    assert files(top / "outside") == outside
    assert (run / "mine.txt").read_bytes() == mine
    assert sorted(path.name for path in top.iterdir()) == ["copy", "data", "outside", "run"]


@pytest.mark.parametrize("restart", quick([False, True]))
@pytest.mark.parametrize("standin", quick(STANDINS, "link to a file", "pipe"))
@pytest.mark.parametrize("place", quick(PLACES, ".lock", ".run.json.draft", "drafts"))
def test_something_else_in_the_place_of_a_file(run, request, place, standin, restart):
    outside = run.parent / "outside"
    if place == "drafts":
        place = f".draft-{json.loads((run / 'run.json').read_text())['id']}"
    path = run / place
    path.parent.mkdir(exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if standin == "pipe":
        os.mkfifo(path)
    elif standin == "folder":
        path.mkdir()
    else:
        name = {"link to a file": "target.txt", "link to a folder": "", "link to nothing": "gone"}
        path.symlink_to(outside / name[standin])
    with recorded(request, "run folder", standin):
        assert_kept_inside(run, restart)


@pytest.mark.parametrize("restart", quick([False, True], True))
@pytest.mark.parametrize(
    "content", quick(CONTENTS, "a folder by a link", "a pattern by a link", "an id that is a path")
)
def test_a_manifest_that_was_changed(run, request, content, restart):
    (run / "link").symlink_to(run.parent / "outside")
    path = run / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | CONTENTS[content]))
    with recorded(request, "run folder", content):
        assert_kept_inside(run, restart)


@pytest.mark.parametrize("name", ["link to a file", "pipe"])
def test_a_lock_of_prepared_data_is_a_regular_file(run, name):
    """Prepared again under the same name, because its header is gone."""
    outside = run.parent / "outside"
    stores = [path for path in (run / "data").iterdir() if path.is_dir()]
    for store in stores:
        (store / "header.json").unlink()
        lock = run / "data" / f"{store.name}.lock"
        lock.unlink(missing_ok=True)
        if name == "pipe":
            os.mkfifo(lock)
        else:
            lock.symlink_to(outside / "target.txt")
    assert stores
    assert_kept_inside(run, False)
