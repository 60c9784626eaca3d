"""How good the settings of `glassformer train classify` are, beside the best ones found by hand.

    python recipes/few_rows.py FOLDER          # of banking77: train.csv and test.csv

500 rows are drawn from train.csv, once. The command reads them with its defaults, with three seeds,
and with changed defaults, with one. By hand, learning rate, epochs, batch, loss, adapter and frozen
layers are varied, first with one seed; the best setting is then repeated with the others. By hand
all 500 rows are learned, and the last model counts. All models are judged on all rows of test.csv.
Every result goes to recipes/results/few_rows.json at once; the same command goes on where it was
stopped.
"""

from __future__ import annotations

import csv
import json
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import glassformer as gf

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "recipes" / "results" / "few_rows.json"
RUNS = ROOT / "runs" / "few_rows"
ROWS, SEEDS = 500, (0, 1, 2)
BASE = {"learning_rate": 1e-3, "epochs": 30, "batch_size": 16}
CHANGED: dict[str, dict[str, Any]] = {
    "defaults, label smoothing 0.1": {"settings": ["objective.label_smoothing=0.1"]},
    "defaults, label smoothing 0.1, average of the weights 0.99": {
        "settings": ["objective.label_smoothing=0.1", "train.ema_decay=0.99"]
    },
    "defaults, rate 2e-3": {"learning_rate": 2e-3},
    "defaults, rate 7e-4": {"learning_rate": 7e-4},
}
BY_HAND: dict[str, dict[str, Any]] = {
    "rate 1e-3, 30 epochs": {},
    "rate 1e-3, 40 epochs": {"epochs": 40},
    "rate 1e-3, 60 epochs": {"epochs": 60},
    "rate 2e-3, 30 epochs": {"learning_rate": 2e-3},
    "rate 5e-4, 40 epochs": {"learning_rate": 5e-4, "epochs": 40},
    "batches of 8": {"batch_size": 8},
    "label smoothing 0.1": {"settings": ["objective.label_smoothing=0.1"]},
    "layer-wise decay 0.8": {"settings": ["train.layerwise_lr_decay=0.8"]},
    "LoRA, rate 3e-3": {"lora": True, "learning_rate": 3e-3},
    "frozen base, rate 5e-3, 40 epochs": {
        "learning_rate": 5e-3,
        "epochs": 40,
        "settings": ["train.freeze_base=true"],
    },
}


def measure(folder: Path) -> None:
    """Measures what is not in the results yet."""
    results: dict[str, dict[str, float]] = {}
    if RESULTS.exists():
        results = json.loads(RESULTS.read_text("utf-8"))
    rows = draw(folder / "train.csv")

    def result(name: str, seed: int, **options: Any) -> float:
        key = f"{name}, seed {seed}"
        if key not in results:
            results[key] = judged(rows, folder / "test.csv", seed=seed, **options)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
            print(key, results[key], flush=True)
        return results[key]["accuracy"]

    for name, one in {"defaults": {}, **CHANGED}.items():
        result(name, 0, **one)
    found = {
        name: result(name, 0, validation=0.0, **{**BASE, **one}) for name, one in BY_HAND.items()
    }
    best = max(found, key=lambda name: found[name])
    for seed in SEEDS:
        result("defaults", seed)
        result(best, seed, validation=0.0, **{**BASE, **BY_HAND[best]})


def draw(path: Path) -> Path:
    """Returns a file with rows that are drawn from a larger one."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    RUNS.mkdir(parents=True, exist_ok=True)
    with (RUNS / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *random.Random(0).sample(rows, ROWS)])
    return RUNS / "rows.csv"


def judged(rows: Path, test: Path, **options: Any) -> dict[str, float]:
    """Trains a classifier and returns its accuracy on the test rows, and what the training took."""
    started, computed = time.perf_counter(), time.process_time()
    run = gf.train(
        "classify", str(rows), base="zoo:encoder", out=str(RUNS / "run"), progress=False, **options
    )
    taken = {
        "seconds": round(time.perf_counter() - started, 1),
        "cpu seconds": round(time.process_time() - computed, 1),
    }
    found = run.load().evaluate(test, n_resamples=0)
    shutil.rmtree(run.folder)
    return {"accuracy": round(found["accuracy"], 4), **taken}


if __name__ == "__main__":
    measure(Path(sys.argv[1]))
