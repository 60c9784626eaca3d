"""Trains, judges and packs models of the zoo:

    python recipes/zoo/build.py encoder                # on a GPU; data.py has made its data
    python recipes/zoo/build.py encoder train.max_steps=9  # with other settings of its recipes
    python recipes/zoo/build.py all --only judge,card  # parts of it: train, pack, judge, card

What is done is not done again: a run goes on where it was stopped, and what stands in figures.json
is not measured anew unless --again says so. --zoo names another folder for the models."""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import reader
import torch
from card import card, command
from data import HOME as DATA
from facts import FACTS, Facts, Trial

import glassformer as gf
from glassformer.storage.files import write_json
from glassformer.tasks.task_settings import keep
from glassformer.train.compare_runs import find_runs
from glassformer.train.recipe import read_recipe
from glassformer.train.saved_steps import snapshots
from glassformer.weights.quantization import count_parameters

ROOT = Path(__file__).parents[2]
STAGES = ("train", "pack", "judge", "card")
OF_RUNS = ("recipe.toml", "metrics.jsonl", "finished.json")  # by which `open` finds the steps


def train(facts: Facts, settings: Sequence[str], device: str | None) -> None:
    for recipe in (*facts.recipes, *facts.beside):
        if recipe == "reader" and not (DATA / "reader" / "taught-sentiment.jsonl").exists():
            print("the teacher is asked", flush=True)
            reader.teach(DATA / "reader", Path("runs/zoo/reader-teacher/model"), device or best())
        where = [] if device is None else [f"scale.device={device}"]
        glassformer("train", str(file_of(recipe)), *settings, *where)


def best() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def glassformer(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "glassformer", *words])
    if done.returncode:
        sys.exit(done.returncode)


def file_of(recipe: str) -> Path:
    return ROOT / "recipes" / "zoo" / f"{recipe}.toml"


def folder_of(recipe: str) -> Path:
    return Path(read_recipe(file_of(recipe)).run.out)


def pack(name: str, facts: Facts, target: Path) -> None:
    """The model in half the bytes, what it is judged by, and the steps that led to it."""
    run = folder_of(facts.recipes[-1])
    model = gf.load(run / facts.kept)
    if facts.settings is not None:
        task, settings = facts.settings
        keep(model, task, **settings)
    model.save(target, dtype=torch.bfloat16)
    shutil.copytree(DATA / name / "eval", target / "eval", dirs_exist_ok=True)
    steps = [one for one in snapshots(run) if one.folder.parent.name == "steps"]
    for one in steps:
        one.load().save(target / "steps" / one.folder.name, dtype=torch.bfloat16)
    for file in OF_RUNS if steps else ():
        shutil.copy(run / file, target / file)
    weights = (target / "model.safetensors").read_bytes()
    known = {
        "parameters": count_parameters(model),
        "sha256": hashlib.sha256(weights).hexdigest(),
        "run": told(run, facts.kept),
    }
    write_json(target / "figures.json", known)  # without those of a model that was there before


def told(run: Path, kept: str) -> dict[str, Any]:
    """Of a finished run, up to the step whose model is kept."""
    (summary,) = find_runs([str(run)])
    ending, about = summary.run.finished, summary.about
    assert ending is not None and about is not None
    step = ending["best_step" if kept == "best" else "step"]
    valid = {one["step"]: one["valid"]["loss"] for one in summary.entries if "valid" in one}
    return {
        "steps": step,
        "tokens": round(summary.tokens_at(step)),
        "seed": summary.recipe.train.seed,
        "seconds": summary.seconds,
        "valid": valid.get(step),
        "device": about.device,
        "versions": about.versions,
    }


def judge(facts: Facts, target: Path, device: str, again: bool) -> None:
    known = read_figures(target)
    trials = known.setdefault("trials", {})
    for trial in facts.trials:
        if trial.title in trials and not again:
            continue
        if trial.model is not None and not Path(trial.model).exists():
            print(f"{trial.title}: {trial.model} is not here, so it is not judged")
            continue
        found = judged(trial, target, device)
        if found is not None:
            kept = {**{key: found[key] for key in ("task", "records")}, "figures": found["metrics"]}
            trials[trial.title] = {**kept, "intervals": "Wilson, BCa"}
            write_json(target / "figures.json", known)
            print(trial.title, {name: one["value"] for name, one in found["metrics"].items()})


def judged(trial: Trial, target: Path, device: str) -> dict[str, Any] | None:
    """By the command that the card names."""
    files = target / "eval" if trial.model is None else DATA / trial.of / "eval"
    words = command(trial, trial.model or str(target), str(files)).split()
    more = ["--json", "--device", device, "--dtype", "float32"]
    done = subprocess.run(
        [sys.executable, "-m", "glassformer", *words, *more], capture_output=True, text=True
    )
    if done.returncode:
        print(f"{trial.title} is not judged: {done.stderr.strip()}")
        return None
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def read_figures(target: Path) -> dict[str, Any]:
    path = target / "figures.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def write_card(name: str, facts: Facts, target: Path) -> None:
    found = read_figures(target)
    lacking = [one.title for one in facts.trials if one.title not in found.get("trials", {})]
    if lacking:
        print(f"{name} has no card yet: not judged are {', '.join(lacking)}")
        return
    (target / "README.md").write_text(card(name, facts, found), "utf-8")


def main() -> None:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    asked.add_argument("name", choices=[*FACTS, "all"])
    asked.add_argument("settings", nargs="*", help="section.key=value of the recipes")
    asked.add_argument("--only", default=",".join(STAGES))
    asked.add_argument("--zoo", type=Path)
    asked.add_argument("--device")
    asked.add_argument("--again", action="store_true")
    given = asked.parse_args()
    stages = given.only.split(",")
    if unknown := {*stages} - {*STAGES}:
        asked.error(f"there is no part {', '.join(unknown)}; there are {', '.join(STAGES)}")
    for name, facts in FACTS.items():
        if given.name not in (name, "all"):
            continue
        target = (given.zoo or ROOT / facts.home) / name
        if "train" in stages:
            train(facts, given.settings, given.device)
        if "pack" in stages:
            pack(name, facts, target)
        if "judge" in stages:
            judge(facts, target, given.device or best(), given.again)
        if "card" in stages:
            write_card(name, facts, target)


if __name__ == "__main__":
    try:
        main()
    except gf.GlassformerError as error:
        sys.exit(f"error: {error}")
