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
import math
import re
import shutil
import statistics
import time
from collections.abc import Callable
from typing import Any

from nanogpt import cold, train_nanogpt

from bench import RESULTS, SEEDS, Bench, Rows, known, put, show

BODIES = {"electra": "discriminator_predictions", "masked": "generator"}  # heads to leave out
TASKS = {"cola": "matthews", "sst2": "accuracy", "stsb": "spearman"}

SMALL = ("model.num_layers=1", "model.num_heads=2", "model.hidden_size=16", "train.max_steps=12",
         "train.batch_size=4", "train.warmup_steps=2", "train.compile=false")  # fmt: skip
TRIAL = {
    "shakespeare": (*SMALL, "model.context_length=32", "train.eval_steps=6"),
    "wikitext2": (*SMALL, "model.intermediate_size=32", "train.eval_steps=6"),
    "electra": SMALL,
    "glue": SMALL[3:6],
}  # fmt: skip


def train(bench: Bench, recipe: str, kind: str, *settings: str, **environment: str) -> None:
    bench.train(recipe, *settings, *(TRIAL[kind] if bench.trial else ()), **environment)


# --- Shakespeare, letter by letter, beside nanoGPT ---------------------------------------------


def shakespeare(bench: Bench) -> None:
    text = bench.original("tinyshakespeare/input.txt")
    edge = int(len(text) * 0.9)
    bench.write("shakespeare/train.txt", text[:edge])
    bench.write("shakespeare/valid.txt", text[edge:])
    peer = bench.place / "runs" / "nanogpt"
    bench.once("nanoGPT", lambda: train_nanogpt(text, edge, peer, bench.trial))
    bench.once("glassformer", lambda: letters(bench, "shakespeare"))
    average = ("shakespeare-averaged", "train.ema_decay=0.99")
    bench.once("glassformer, averaged weights", lambda: letters(bench, *average))


def letters(bench: Bench, name: str, *settings: str) -> dict[str, Any]:
    folder = bench.place / "runs" / name
    shutil.rmtree(folder, ignore_errors=True)  # since the whole time of the whole run counts
    begun = time.perf_counter()
    where = f"run.out=runs/{name}"
    train(bench, "shakespeare", "shakespeare", where, *settings, **cold(folder))
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
    train(bench, recipe, "wikitext2")
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
    train(bench, body, "electra")
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
    train(bench, f"glue-{task}", "glue", f"model.base=runs/{body}/model", f"train.seed={seed}",
                f'model.ignore_unexpected=["{BODIES[body]}"]', f"run.out=runs/{name}")  # fmt: skip
    _, entries, _ = bench.run(name)
    return dict([entry for entry in entries if "valid" in entry][-1]["valid"])


# --- What docs/recipes.md shows ----------------------------------------------------------------


def shakespeare_table(found: dict[str, Any]) -> Rows:
    rows = [["", "loss on all of the validation text", "at step", "whole run", "a step"]]
    for side, row in found.items():
        took = [f"{row['seconds']:.0f} s", f"{row['ms a step']:.1f} ms"]
        rows.append([side, f"{row['valid']:.4f}", f"{row['at step']:,}", *took])
    return rows


def wikitext2_table(found: dict[str, Any]) -> Rows:
    rows = [["", "parameters", "tokens read", "perplexity, valid", "test", "at step", "time"]]
    names = {"wikitext2": "without", "wikitext2-memory": "with a memory of 128"}
    for name, said in names.items():
        row = found[name]
        counts = [f"{row[count]:,}" for count in ("parameters", "tokens")]
        figures = [f"{row[split]:.1f}" for split in ("valid", "test")]
        rows.append([said, *counts, *figures, f"{row['at step']:,}", f"{row['seconds']:.0f} s"])
    return rows


def electra_table(found: dict[str, Any]) -> Rows:
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


COMPARISONS: dict[str, tuple[Callable[[Bench], None], Callable[[dict[str, Any]], Rows]]] = {
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
        found = {name: known(RESULTS / f"{name}.json") for name in COMPARISONS}
        put({name: table(found[name]) for name, (_, table) in COMPARISONS.items() if found[name]})
        return
    bench = Bench(given.what, given.trial)
    compare, table = COMPARISONS[given.what]
    compare(bench)
    show(table(bench.results))


if __name__ == "__main__":
    main()
