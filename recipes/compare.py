"""Runs the recipes of this folder beside what they are compared with:

    python recipes/compare.py shakespeare    beside nanoGPT: the loss, and how long it takes
    python recipes/compare.py wikitext2      with a memory and without
    python recipes/compare.py electra        ELECTRA's objective and BERT's, judged by GLUE tasks
    python recipes/compare.py tables         docs/recipes.md anew from recipes/results

Texts are looked for in data/, nanoGPT in peers/nanogpt/: docs/recipes.md says where they come from.
What is done is written to recipes/results at once and not done again; a run that was stopped goes
on. `--trial` does it all in runs/trial with a little of each text and tiny models, on a CPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from nanogpt import cold, train_nanogpt

ROOT = Path(__file__).parent.parent
TRAIN = "import sys, glassformer as gf; gf.train(sys.argv[1], sys.argv[2:])"
CORES = os.cpu_count() or 1
SEEDS = (1, 2, 3)
BODIES = {"electra": "discriminator_predictions", "masked": "generator"}  # heads to leave out
TASKS = {"cola": "matthews", "sst2": "accuracy", "stsb": "spearman"}

SMALL = ("model.layers=1", "model.heads=2", "model.width=16", "train.steps=12", "train.batch=4",
         "train.warmup=2", "train.compile=false")  # fmt: skip
TRIAL = {
    "shakespeare": (*SMALL, "model.context=32", "train.evaluate_every=6"),
    "wikitext2": (*SMALL, "model.ffn=32", "train.evaluate_every=6"),
    "electra": SMALL,
    "glue": SMALL[3:6],
}  # fmt: skip


class Bench:
    """One comparison: where it works, and what is known by now."""

    def __init__(self, name: str, trial: bool) -> None:
        self.trial, self.lock = trial, Lock()
        self.place = ROOT / "runs" / "trial" if trial else ROOT
        self.path = (self.place if trial else ROOT / "recipes") / "results" / f"{name}.json"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        there = self.path.exists()
        self.results: dict[str, Any] = json.loads(self.path.read_text("utf-8")) if there else {}

    def once(self, name: str, make: Callable[[], dict[str, Any]]) -> None:
        if name not in self.results:
            made = make()
            with self.lock:
                self.results[name] = made
                self.path.write_text(json.dumps(self.results, indent=1) + "\n")
        print(name, self.results[name], flush=True)

    def once_each(self, jobs: Iterable[tuple[str, Callable[[], dict[str, Any]]]]) -> None:
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

    def train(self, recipe: str, small: str, *settings: str, **environment: str) -> None:
        """In a process of its own, as a user would start it."""
        words = [*settings, *(TRIAL[small] if self.trial else ())]
        command = [sys.executable, "-c", TRAIN, str(ROOT / "recipes" / f"{recipe}.toml"), *words]
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


# --- Shakespeare, letter by letter, beside nanoGPT ---------------------------------------------


def shakespeare(bench: Bench) -> None:
    text = bench.original("tinyshakespeare/input.txt")
    edge = int(len(text) * 0.9)
    bench.write("shakespeare/train.txt", text[:edge])
    bench.write("shakespeare/valid.txt", text[edge:])
    peer = bench.place / "runs" / "nanogpt"
    bench.once("nanoGPT", lambda: train_nanogpt(text, edge, peer, bench.trial))
    bench.once("glassformer", lambda: letters(bench, "shakespeare"))
    average = ("shakespeare-averaged", "train.average=0.99")
    bench.once("glassformer, averaged weights", lambda: letters(bench, *average))


def letters(bench: Bench, name: str, *settings: str) -> dict[str, Any]:
    folder = bench.place / "runs" / name
    shutil.rmtree(folder, ignore_errors=True)  # since the whole time of the whole run counts
    begun = time.perf_counter()
    where = f"run.folder=runs/{name}"
    bench.train("shakespeare", "shakespeare", where, *settings, **cold(folder))
    seconds = time.perf_counter() - begun
    ended, entries, about = bench.run(name)
    steps = [entry for entry in entries if "loss" in entry]
    a_step = steps[0]["tokens"]
    return {
        "parameters": about["parameters"],
        "seconds": seconds,
        "ms a step": 1e3 * statistics.median(
            a_step / entry["speed"]["tokens_per_second"] for entry in steps
        ),
        "valid": ended["best"],
        "at step": ended["best_step"],
        "device": about["device"],
        "versions": about["versions"],
    }  # fmt: skip


# --- WikiText-2, word by word, with a memory and without ---------------------------------------


def wikitext2(bench: Bench) -> None:
    for split in ("train", "valid", "test"):
        text = bench.original(f"wikitext2/{split}.txt")
        bench.write(f"wikitext2-words/{split}.txt", text.replace("\n", "<eos>\n"))
    bench.once_each((name, lambda name=name: words(bench, name))  # type: ignore[misc]
                    for name in ("wikitext2-memory", "wikitext2"))  # fmt: skip


def words(bench: Bench, recipe: str) -> dict[str, Any]:
    bench.train(recipe, "wikitext2")
    ended, entries, about = bench.run(recipe)
    return {
        "parameters": about["parameters"],
        "tokens": ended["tokens"],
        "valid": math.exp(ended["best"]),
        "test": ended["test"]["perplexity"],
        "at step": ended["best_step"],
        "seconds": [entry for entry in entries if "speed" in entry][-1]["speed"]["time"],
        "device": about["device"],
        "versions": about["versions"],
    }


# --- ELECTRA's objective beside BERT's ---------------------------------------------------------


def electra(bench: Bench) -> None:
    for split in ("train", "valid"):
        text = bench.original(f"wikitext2/{split}.txt").replace("<unk>", "[UNK]")
        bench.write(f"plain/{split}.txt", re.sub(r" @([-,.])@ ", r"\1", text))
    stories = "tinystories/tinystories_sample_2MB.txt"
    bench.write(stories, bench.original(stories))
    for task in ("CoLA", "SST-2", "STS-B"):
        for split in ("train", "dev"):
            bench.write(f"glue/{task}/{split}.tsv", bench.original(f"glue/{task}/{split}.tsv"))
    bench.once_each((body, lambda body=body: pretrained(bench, body))  # type: ignore[misc]
                    for body in BODIES)  # fmt: skip
    bench.once_each((f"{task} {body} {seed}", lambda job=(task, body, seed): tuned(bench, *job))  # type: ignore[misc]
                    for task in TASKS for body in BODIES for seed in SEEDS)  # fmt: skip


def pretrained(bench: Bench, body: str) -> dict[str, Any]:
    bench.train(body, "electra")
    ended, entries, about = bench.run(body)
    return {
        "parameters": about["parameters"],
        "steps": ended["step"],
        "tokens": ended["tokens"],
        "operations": ended["tokens"] * about["flops_token"],
        "loss": [entry for entry in entries if "loss" in entry][-1]["parts"],
        "seconds": [entry for entry in entries if "speed" in entry][-1]["speed"]["time"],
        "device": about["device"],
        "versions": about["versions"],
    }


def tuned(bench: Bench, task: str, body: str, seed: int) -> dict[str, Any]:
    """What the last evaluation of the last step says: nothing is chosen by it."""
    name = f"glue/{task}-{body}-{seed}"
    bench.train(f"glue-{task}", "glue", f"model.folder=runs/{body}/model", f"train.seed={seed}",
                f'model.drop=["{BODIES[body]}"]', f"run.folder=runs/{name}")  # fmt: skip
    _, entries, _ = bench.run(name)
    return dict([entry for entry in entries if "valid" in entry][-1]["valid"])


# --- What docs/recipes.md shows ----------------------------------------------------------------


def shakespeare_table(found: dict[str, Any]) -> list[list[str]]:
    rows = [["", "loss on all of the validation text", "at step", "whole run", "a step"]]
    for side, row in found.items():
        took = [f"{row['seconds']:.0f} s", f"{row['ms a step']:.1f} ms"]
        rows.append([side, f"{row['valid']:.4f}", f"{row['at step']:,}", *took])
    return rows


def wikitext2_table(found: dict[str, Any]) -> list[list[str]]:
    rows = [["", "parameters", "tokens read", "perplexity, valid", "test", "at step", "time"]]
    names = {"wikitext2": "without", "wikitext2-memory": "with a memory of 128"}
    for name, said in names.items():
        row = found[name]
        counts = [f"{row[count]:,}" for count in ("parameters", "tokens")]
        figures = [f"{row[split]:.1f}" for split in ("valid", "test")]
        rows.append([said, *counts, *figures, f"{row['at step']:,}", f"{row['seconds']:.0f} s"])
    return rows


def electra_table(found: dict[str, Any]) -> list[list[str]]:
    """Of three seeds the mean, and the least and the most. Answers that are all alike correlate
    with nothing, which is written as null and counts as 0."""
    rows = [["", "steps", "operations", *(f"{task} ({name})" for task, name in TASKS.items())]]
    for body in BODIES:
        cells = [body, f"{found[body]['steps']:,}", f"{found[body]['operations']:.3g}"]
        for task, name in TASKS.items():
            each = [100 * (found[f"{task} {body} {seed}"][name] or 0) for seed in SEEDS]
            cells.append(f"{statistics.mean(each):.1f} ({min(each):.1f} to {max(each):.1f})")
        rows.append(cells)
    return rows


def tables() -> None:
    """Puts the results between the marks that docs/recipes.md has for them."""
    guide = ROOT / "docs" / "recipes.md"
    text = guide.read_text("utf-8")
    for name, (_, table) in COMPARISONS.items():
        path = ROOT / "recipes" / "results" / f"{name}.json"
        if path.exists():
            rows = table(json.loads(path.read_text("utf-8")))
            rows.insert(1, ["---"] + ["---:"] * (len(rows[0]) - 1))
            shown = "\n".join(f"| {' | '.join(row)} |" for row in rows)
            mark = f"<!-- {name} -->"
            text = re.sub(f"{mark}.*?{mark}", f"{mark}\n{shown}\n{mark}", text, flags=re.S)
    guide.write_text(text, "utf-8")


COMPARISONS: dict[str, tuple[Callable[[Bench], None], Callable[[dict[str, Any]], Any]]] = {
    "shakespeare": (shakespeare, shakespeare_table),
    "wikitext2": (wikitext2, wikitext2_table),
    "electra": (electra, electra_table),
}


def main() -> None:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    asked.add_argument("what", choices=[*COMPARISONS, "tables"])
    asked.add_argument("--trial", action="store_true")
    given = asked.parse_args()
    if given.what == "tables":
        tables()
        return
    bench = Bench(given.what, given.trial)
    compare, table = COMPARISONS[given.what]
    compare(bench)
    for row in table(bench.results):
        print("  ".join(f"{cell:>22}" for cell in row))


if __name__ == "__main__":
    main()
