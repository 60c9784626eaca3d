"""What the scripts of this folder that compare have in common: `compare.py`, `tuned.py` and
`written.py` run recipes beside something else, keep what came out in recipes/results, and put
tables of it into docs/recipes.md."""

from __future__ import annotations

import fcntl
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from glassformer.train.build_data import tokenizer_texts
from glassformer.train.build_model import build_model
from glassformer.train.build_objective import build_objective, with_labels
from glassformer.train.recipe import Recipe, read_recipe

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "recipes" / "results"
TRAIN = "import sys, glassformer as gf; gf.train(sys.argv[1], sys.argv[2:])"
CORES = os.cpu_count() or 1
SEEDS = (1, 2, 3)

Rows = list[list[str]]  # a table, its head first
Job = Callable[[], dict[str, Any]]  # measures one thing; what comes back is kept
AT_ONCE = "at once"  # in what measure.py keeps: how many processes ran at a time


class Bench:
    """One comparison: where it works, and what is known by now."""

    def __init__(self, name: str, trial: bool) -> None:
        self.trial, self.lock = trial, Lock()
        self.place = ROOT / "runs" / "trial" if trial else ROOT
        self.path = (self.place / "results" if trial else RESULTS) / f"{name}.json"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if trial and not (self.place / "recipes").exists():  # their paths are relative to them
            (self.place / "recipes").symlink_to(ROOT / "recipes")
        self.results = known(self.path)

    def once(self, name: str, make: Job) -> None:
        if name not in self.results:
            self.keep(name, make())
        print(name, self.results[name], flush=True)

    def keep(self, name: str, made: dict[str, Any]) -> None:
        with self.lock, alone(self.path.parent):
            self.results |= known(self.path) | {name: made}
            draft = self.path.with_suffix(".draft")
            draft.write_text(json.dumps(self.results, indent=1) + "\n")
            draft.replace(self.path)  # whole, whenever it ends

    def once_each(self, jobs: Iterable[tuple[str, Job]]) -> None:
        """Several at a time, since each alone leaves most of a GPU idle."""
        with ThreadPoolExecutor(max(1, CORES // 2)) as pool:
            for done in [pool.submit(self.once, *job) for job in jobs]:
                done.result()

    def original(self, name: str) -> str:
        text = (ROOT / "data" / name).read_text("utf-8")
        return "".join(text.splitlines(keepends=True)[:400]) if self.trial else text

    def write(self, name: str, text: str) -> None:
        path = self.place / "data" / name
        if not path.exists() or path.read_text("utf-8") != text:  # or it would be tokenized anew
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")

    def train(self, recipe: str, *settings: str, **environment: str) -> None:
        """In a process of its own, as a user would start it."""
        command = [sys.executable, "-c", TRAIN, f"recipes/{recipe}.toml", *settings]
        path = f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"
        around = {**os.environ, **environment, "PYTHONPATH": path}
        subprocess.run(command, cwd=self.place, env=around, check=True)

    def run(self, name: str) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
        """How a run has ended, its metrics, and what is known about it."""
        folder = self.place / "runs" / name
        lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
        ended, about = (
            json.loads((folder / f"{n}.json").read_text()) for n in ("finished", "about")
        )
        return ended, [json.loads(line) for line in lines], about


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process at a time, of those that measure different parts of one comparison."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def started(recipe: Recipe, folder: Path) -> Recipe:
    """Puts the fresh model that both sides begin with into `start`, its tokenizer with it, and says
    the rest as it was."""
    labeled = with_labels(recipe)
    model, _ = build_objective(labeled, build_model(labeled, lambda: tokenizer_texts(recipe, ())))
    model.save(folder / "start")
    tables = recipe.tables()
    tables["model"] = {"base": str(folder / "start")}
    tables["tokenizer"] = {}
    tables["run"] |= {"out": str(folder / "run"), "tensorboard": False}
    return read_recipe(tables)


def known(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def spread(values: Sequence[float], form: str = ".1f") -> str:
    """The mean, and behind it the deviation of one from it where there are several."""
    mean = f"{statistics.mean(values):{form}}"
    return f"{mean} ± {statistics.stdev(values):{form}}" if len(values) > 1 else mean


def show(rows: Rows) -> None:
    for row in rows:
        print("  ".join(f"{cell:>22}" for cell in row))


def put(tables: Mapping[str, Rows]) -> None:
    """Puts each table between the two marks that docs/recipes.md has for it."""
    guide = ROOT / "docs" / "recipes.md"
    text = guide.read_text("utf-8")
    for name, rows in tables.items():
        ruled = [rows[0], ["---"] + ["---:"] * (len(rows[0]) - 1), *rows[1:]]
        shown = "\n".join(f"| {' | '.join(row)} |" for row in ruled)
        mark = f"<!-- {name} -->"
        text = re.sub(f"{mark}.*?{mark}", f"{mark}\n{shown}\n{mark}", text, flags=re.S)
    guide.write_text(text, "utf-8")
