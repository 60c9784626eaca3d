"""A run changes and removes only files that it has written."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from quick import quick
from test_resume import Interrupting, assert_same_run, files, metrics, recipe

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.interrupts import SIGNALS
from glassformer.train import manifest, recipe_text
from glassformer.train.compare_runs import read_run
from glassformer.train.interrupt import TrainingInterrupted
from glassformer.train.open_run import open_run
from glassformer.train.recipe import read_recipe
from glassformer.train.renamed_keys import RENAMED_KEYS, RENAMED_OPTIONS
from glassformer.train.reporter import Reporter
from glassformer.train.trainer import with_objective_defaults

USER = {
    "project": ["recipe.toml", "data/a.txt", "model/w.bin", "plots/p.svg", "README.md", "events.1"],
    "only a recipe": ["recipe.toml"],
    "hidden": [".env"],
    "git": [".git/HEAD"],
    "a file named as the manifest": ["run.json"],
    "a checkpoint's name": ["state/step-0000000003/notes.json", "recipe.toml", ".lock"],
    "half of a run": ["metrics.jsonl", "finished.json", "best/config.json"],
}


def laid_out(folder: Path, names: list[str]) -> dict[str, bytes]:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"the user's {name}".encode())
    return files(folder)


def unchanged(folder: Path, before: dict[str, bytes]) -> bool:
    now = files(folder)
    return all(now.get(name) == content for name, content in before.items())


@pytest.mark.parametrize("linked", [False, True], ids=["plain", "link"])
@pytest.mark.parametrize("restart", [False, True], ids=["", "restart"])
@pytest.mark.parametrize("kind", USER)
def test_a_folder_of_the_user_is_refused_and_stays_as_it_was(tmp_path, kind, restart, linked):
    folder = tmp_path / "run"
    before = laid_out(folder, USER[kind])
    if linked:
        (tmp_path / "link").symlink_to(folder)
        folder = tmp_path / "link"
    with pytest.raises(GlassformerError, match=rf"new or empty folder, .*run.out={folder}-2\."):
        gf.train(recipe(folder, max_steps=1), restart=restart)
    assert files(tmp_path / "run") == before


def test_the_folder_of_the_recipe_is_refused_and_the_named_one_is_free(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    folder.mkdir()
    whole = recipe(folder / "run", max_steps=1)
    laid_out(folder, USER["project"])
    (folder / "recipe.toml").write_text(
        with_objective_defaults(read_recipe(whole)).text()
    )  # as a run writes it
    before = files(folder)
    monkeypatch.chdir(folder)
    with pytest.raises(GlassformerError, match=r"run.out=runs/project\."):
        gf.train("recipe.toml", ["run.out=."])
    assert files(folder) == before
    gf.train("recipe.toml", ["run.out=runs/project"])
    assert unchanged(folder, before)
    with pytest.raises(GlassformerError, match=r"run.out=runs/project-2\."):
        gf.train("recipe.toml", ["run.out=."])


def test_without_tomli_w_the_recipe_is_stored_as_json(tmp_path, monkeypatch):
    settings = {"max_steps": 6, "save_steps": 2, "eval_steps": 2}
    gf.train(recipe(tmp_path / "whole", **settings))
    whole, folder = recipe(tmp_path / "run", **settings), tmp_path / "run"
    with monkeypatch.context() as bare, pytest.raises(TrainingInterrupted):
        bare.setattr(recipe_text, "find_spec", lambda name: None)
        gf.train(whole, reporters=[Interrupting(3)])
    assert (folder / "recipe.json").is_file() and not (folder / "recipe.toml").exists()
    assert read_run(folder).recipe == with_objective_defaults(read_recipe(whole))
    with pytest.raises(GlassformerError, match=r"another recipe \(train.seed: "):
        gf.train(folder / "recipe.json", ["train.seed=9"])
    gf.train(folder / "recipe.json")  # tomli-w is there again
    assert (folder / "recipe.toml").is_file() and not (folder / "recipe.json").exists()
    assert_same_run(tmp_path / "whole", folder)


@pytest.mark.parametrize("names", [[], [".gitkeep", ".DS_Store"]], ids=["empty", "placeholders"])
def test_a_run_begins_in_an_empty_folder(tmp_path, names):
    real = tmp_path / "real"
    real.mkdir()
    before = laid_out(real, names)
    (real / ".lock").touch()  # a start that was killed at once
    (tmp_path / "run").symlink_to(real)
    assert gf.train(recipe(tmp_path / "run", max_steps=1)).finished["step"] == 1
    gf.train(recipe(tmp_path / "run", max_steps=1, seed=9), restart=True)
    assert unchanged(real, before)


def interrupted(folder: Path, **settings) -> dict:
    whole = recipe(folder, **{"max_steps": 6, "save_steps": 2, "eval_steps": 2, **settings})
    whole["run"]["snapshot_steps"] = 1
    with pytest.raises(TrainingInterrupted):
        gf.train(whole, reporters=[Interrupting(3)])
    return whole


def test_a_lock_of_another_program_survives_a_failed_start(tmp_path):
    (tmp_path / ".lock").write_text("the user's")
    wrong = recipe(tmp_path, max_steps=1)
    wrong["data"]["train"] = "nowhere.txt"
    with pytest.raises(GlassformerError, match=r"nowhere\.txt"):
        gf.train(wrong)
    assert files(tmp_path) == {".lock": b"the user's"}


def test_a_file_in_the_place_of_a_run_folder_is_named(tmp_path):
    (tmp_path / "run").write_text("the user's")
    with pytest.raises(GlassformerError, match=r"run, which is a file; name a folder\.$"):
        gf.train(recipe(tmp_path / "run", max_steps=1))
    assert (tmp_path / "run").read_text() == "the user's"


def test_files_that_the_user_puts_into_a_run_folder_stay(tmp_path):
    whole, folder = interrupted(tmp_path / "run"), tmp_path / "run"
    folders = {path.parent for path in folder.rglob("*") if path.is_file()}
    names = [str((one / "mine.txt").relative_to(folder)) for one in folders]
    assert {"mine.txt", "state/step-0000000004/mine.txt", "best/mine.txt"} <= {*names}
    laid_out(folder, [*names, "best/my_model.safetensors", "best/mine/config.json"])
    before = {name: data for name, data in files(folder).items() if "mine" in name or "my" in name}
    gf.train(whole)
    assert unchanged(folder, before)
    gf.train(whole, ["train.seed=9"], restart=True)
    assert unchanged(folder, before)
    fresh = interrupted(tmp_path / "fresh", seed=9)
    gf.train(fresh)
    assert metrics(folder) == metrics(tmp_path / "fresh")
    listed = set(manifest.Manifest.read(folder).files)
    others = {".lock", "run.json"}
    assert {*files(folder)} - listed - others == {*before}


@pytest.mark.parametrize(
    "name", ["README.md", "finished.json", "model/config.json", "plots/loss.svg"]
)
def test_a_file_of_the_user_is_not_overwritten(tmp_path, name):
    whole, folder = interrupted(tmp_path / "run"), tmp_path / "run"
    before = laid_out(folder, [name])
    said = "was changed after the run wrote it" if "plots" in name else "was not written by the run"
    with pytest.raises(GlassformerError, match=rf"{name} {said}"):
        gf.train(whole)
    mine = {name: before[name]}
    assert unchanged(folder, mine)
    (folder / name).rename(tmp_path / "elsewhere")
    assert gf.train(whole).finished["step"] == 6


class Puts(Reporter):
    """Writes a file into the run folder while the run goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def step(self, entry):
        if entry["step"] == 5:
            self.path.parent.mkdir(exist_ok=True)
            self.path.write_text("mine")


@pytest.mark.parametrize("name", ["README.md", "model/config.json"])
def test_a_file_that_appears_during_the_run_is_not_overwritten(tmp_path, name):
    whole, path = recipe(tmp_path / "run", max_steps=6, save_steps=2), tmp_path / "run" / name
    with pytest.raises(GlassformerError, match=rf"{name} was not written by the run"):
        gf.train(whole, reporters=[Puts(path)])
    assert path.read_text() == "mine"
    path.unlink()
    assert gf.train(whole).finished["step"] == 6


@pytest.mark.parametrize("name", ["README.md", "recipe.toml"])
def test_a_text_that_the_user_has_changed_is_not_removed(tmp_path, name):
    whole, folder = recipe(tmp_path / "run", max_steps=1), tmp_path / "run"
    gf.train(whole)
    with (folder / name).open("a") as stream:
        stream.write("# notes\n")
    before = files(folder)
    with pytest.raises(GlassformerError, match=rf"{name} was changed after the run wrote it"):
        gf.train(whole, restart=True)
    assert files(folder) == before
    (folder / name).rename(tmp_path / "kept")
    gf.train(whole, restart=True)
    assert (tmp_path / "kept").read_text().endswith("# notes\n")


def test_a_changed_recipe_in_the_run_folder_is_no_silent_change(tmp_path):
    run = gf.train(recipe(tmp_path / "run", max_steps=1))
    path = run.folder / "recipe.toml"
    path.write_text(path.read_text().replace("steps = 1\n", "steps = 2\n"))
    before = path.read_bytes()
    with pytest.raises(GlassformerError, match=r"recipe.toml was changed after the run wrote it"):
        gf.train(path)
    assert path.read_bytes() == before


def test_what_the_recipe_reads_is_not_what_its_run_replaces(tmp_path):
    run = gf.train(recipe(tmp_path / "run", max_steps=1))
    before = files(run.folder)
    again = recipe(tmp_path / "run", max_steps=1) | {"model": {"base": str(run.model)}}
    del again["tokenizer"]
    with pytest.raises(GlassformerError, match=r"model.base is .*would replace; .*run-2"):
        gf.train(again, restart=True)
    assert files(run.folder) == before


def test_a_run_does_not_write_through_a_link_in_its_folder(tmp_path):
    run = gf.train(recipe(tmp_path / "run", max_steps=1))
    shutil.copytree(run.model, tmp_path / "precious")
    shutil.rmtree(run.model)
    run.model.symlink_to(tmp_path / "precious")
    before = files(tmp_path / "precious")
    with pytest.raises(GlassformerError, match="run/model is a link"):
        gf.train(recipe(tmp_path / "run", max_steps=1), restart=True)
    assert files(tmp_path / "precious") == before


@pytest.mark.parametrize("place", ["id", "files"])
def test_a_manifest_that_names_files_elsewhere_removes_none(tmp_path, place):
    run = gf.train(recipe(tmp_path / "run", max_steps=1))
    laid_out(tmp_path, ["precious/a"])
    path = run.folder / "run.json"
    content = json.loads(path.read_text())
    if place == "id":
        content["id"] = "/../../precious"
    else:
        content["files"]["../precious/a"] = []
    path.write_text(json.dumps(content))
    with suppress(GlassformerError):
        gf.train(recipe(tmp_path / "run", max_steps=1), restart=True)
    assert (tmp_path / "precious/a").read_text() == "the user's precious/a"


def test_a_second_process_damages_nothing(tmp_path):
    whole = interrupted(tmp_path / "run")
    with open_run(with_objective_defaults(read_recipe(whole))):
        before = files(tmp_path / "run")
        for restart in (False, True):
            with pytest.raises(GlassformerError, match="Another process is training in"):
                gf.train(whole, restart=restart)
        assert files(tmp_path / "run") == before
    assert gf.train(whole).finished["step"] == 6


def as_version_0_1(folder: Path) -> None:
    """Without a manifest; with the keys of that version and the options of all optimizers."""
    for name in ("run.json", "inputs.json", "data_summary.json"):
        (folder / name).unlink(missing_ok=True)
    path = folder / "recipe.toml"
    tables = tomllib.loads(path.read_text())
    tables["train"] |= {"betas": [0.9, 0.95], "momentum": 0.95}
    tables["data"]["format"] = "text"
    lines = [
        line
        for name, table in tables.items()
        for line in (
            f"[{name}]",
            *(f"{_old_key(name, k)} = {json.dumps(v)}" for k, v in table.items() if v != {}),
        )
    ]
    path.write_text("\n".join(lines) + "\n")


def _old_key(table: str, key: str) -> str:
    if table == "objective":
        return next((old for old, new in RENAMED_OPTIONS.items() if new == key), key)
    old = [name for name, new in RENAMED_KEYS.items() if name.startswith(table) and new == key]
    return old[0].partition(".")[2] if old else key


def test_a_run_of_version_0_1_goes_on(tmp_path):
    settings = {"max_steps": 6, "save_steps": 2, "eval_steps": 2}
    gf.train(recipe(tmp_path / "whole", **settings))
    whole, folder = recipe(tmp_path / "run", **settings), tmp_path / "run"
    with pytest.raises(TrainingInterrupted):
        gf.train(whole, reporters=[Interrupting(3)])
    as_version_0_1(folder)
    before = laid_out(folder, ["mine.txt", "data/mine.csv", "best/mine.txt"])
    mine = {name: data for name, data in before.items() if "mine" in name}
    with pytest.raises(GlassformerError, match="older version, which did not list its files"):
        gf.train(whole, restart=True)
    gf.train(whole)
    assert unchanged(folder, mine)
    (folder / "best/mine.txt").unlink()
    assert_same_run(tmp_path / "whole", folder)
    as_version_0_1(folder)
    assert gf.train(whole).finished["step"] == 6


def test_a_card_of_the_user_in_a_folder_of_version_0_1_stays(tmp_path):
    whole, folder = interrupted(tmp_path / "run"), tmp_path / "run"
    as_version_0_1(folder)
    laid_out(folder, ["README.md"])
    with pytest.raises(GlassformerError, match=r"README.md was not written by the run"):
        gf.train(whole)
    assert (folder / "README.md").read_text() == "the user's README.md"


class Asked(Reporter):
    """Gets a signal while data is prepared, or at a step."""

    def __init__(self, number: int, during: str) -> None:
        self.number, self.during = number, during

    def prepare(self, what, done, total):
        if self.during == what:
            self.during = ""
            os.kill(os.getpid(), self.number)

    def step(self, entry):
        if self.during == "step 3" and entry["step"] == 3:
            os.kill(os.getpid(), self.number)

    def finish(self, how):
        if self.during == "the end":
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("number", quick(SIGNALS, signal.SIGINT, signal.SIGTERM))
@pytest.mark.parametrize(
    ("during", "said"),
    [
        ("learning the tokenizer", "Stopped before the first checkpoint; the same command"),
        ("reading train", "Stopped before the first checkpoint; the same command"),
        ("step 3", "Stopped after step 4 of 6, which is saved in"),
        ("the end", "Stopped; step 6 of 6 is saved in"),
    ],
)
def test_ctrl_c_and_other_signals_are_one_sentence(tmp_path, number, during, said):
    whole = recipe(tmp_path / "run", max_steps=6)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(TrainingInterrupted, match=said):
        gf.train(whole, reporters=[Asked(number, during)])
    assert signal.getsignal(signal.SIGTERM) is before
    assert gf.train(whole).finished["step"] == 6


@pytest.mark.parametrize("begun", [False, True])
def test_a_folder_that_is_read_only_is_named(tmp_path, monkeypatch, begun):
    folder = tmp_path / "run"
    if begun:
        interrupted(folder)
    before = files(folder)

    def refuse(path, text):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(manifest, "write_synced", refuse)
    with pytest.raises(GlassformerError, match=r"cannot be written \(Read-only file system\); "):
        gf.train(recipe(folder, max_steps=6, save_steps=2, eval_steps=2))
    assert unchanged(folder, before)


MUTATIONS = ("replace", "rename", "unlink", "rmdir", "mkdir")


def killed_at(number: int, do) -> bool:
    """Runs in a process that is killed before the so-manieth change to the disk; False if it came
    to its end before."""
    child = os.fork()
    if child == 0:
        left = number

        def killing(function):
            def called(*words, **named):
                nonlocal left
                left -= 1
                if left < 0:
                    os._exit(9)
                return function(*words, **named)

            return called

        try:
            for name in MUTATIONS:
                setattr(os, name, killing(getattr(os, name)))
            do()
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 9)
    return os.waitstatus_to_exitcode(status) == 9


def opened(whole: dict, restart: bool = False) -> None:
    with open_run(with_objective_defaults(read_recipe(whole)), restart=restart) as run:
        run.cut(0)
        run.log({"step": 1})
        with run.replacing(run.state / "step-0000000001") as draft:
            draft.mkdir()
            (draft / "notes.json").write_text("{}")
        with run.replacing(run.best) as draft:
            draft.mkdir()
            (draft / "config.json").write_text("{}")
            (draft / "weights.bin").write_text("1")
        with run.adding("events.out.tfevents.*"):
            (run.folder / "events.out.tfevents.1").write_text("")
        run.manifest.write("README.md", "card")


@pytest.mark.parametrize("restart", quick([True, False]), ids=["restart", "begin"])
def test_a_run_killed_between_any_two_writes_can_be_opened_again(tmp_path, restart, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # which takes most of the time
    whole = recipe(tmp_path / "run", max_steps=1)
    other = recipe(tmp_path / "run", max_steps=1, seed=9)
    moments = 0
    while True:
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        before = {}
        if restart:
            opened(whole)
            before = laid_out(folder, ["mine.txt", "best/mine.txt"])
            before = {name: data for name, data in before.items() if "mine" in name}
        died = killed_at(moments, lambda: opened(other, restart))
        assert unchanged(folder, before)
        if restart:  # what is half cleared is no run to go on with
            with (
                suppress(GlassformerError),
                open_run(with_objective_defaults(read_recipe(whole))) as run,
            ):
                assert run.entries() or not run.is_begun
        opened(other, restart)
        left = set(files(folder)) - set(manifest.Manifest.read(folder).files) - {*before}
        assert left == {".lock", "run.json"}, moments
        assert unchanged(folder, before)
        if not died:
            break
        moments += 1
    assert moments > 20


def test_paths_that_are_not_utf_8(tmp_path):
    odd = os.fsdecode(b"caf\xe9")
    whole = recipe(tmp_path / "run", max_steps=1)
    with pytest.raises(
        GlassformerError, match=r"run\.out is .*caf.udce9.* not UTF-8; name another"
    ):
        gf.train(whole | {"run": {"out": str(tmp_path / odd)}})
    (tmp_path / "data" / "train").rename(tmp_path / "data" / odd)
    whole["data"]["train"] = str(tmp_path / "data" / odd)
    with pytest.raises(GlassformerError, match="A path in the recipe is not UTF-8"):
        gf.train(whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
