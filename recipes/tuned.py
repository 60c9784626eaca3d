"""Fine-tunes by the recipes of this folder and by transformers (recipes/hugging.py), in turn, on
the same data, from the same weights, for as many steps of as many texts:

    python recipes/tuned.py classify [sst2 ...]    whole, with LoRA, and with a frozen body
    python recipes/tuned.py entities [wnut17 ...]  names
    python recipes/tuned.py questions              SQuAD, judged by XQuAD in English
    python recipes/tuned.py scope                  CLINC150, and what is out of its scope
    python recipes/tuned.py together               one model of three tasks beside three models
    python recipes/tuned.py try [sst2 ...]         our side alone with other settings, judged by the
                                                   validation files
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
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from gather import gather
from hugging_tasks import PEERS, Classify
from scope import scope_scores
from tuned_tables import table
from tuning import ALONE, DEVICE, FIGURES, KINDS, MODES, SIDES, cut, file_of, recipe_of

import glassformer as gf
from bench import RESULTS, ROOT, Bench, Job, put, show, started
from glassformer.tasks.classify import Classification
from glassformer.train.estimate import RunEstimate
from glassformer.train.recipe import Recipe, read_recipe
from glassformer.train.reporter import Entry, Reporter
from glassformer.train.run_folder import Run

TRIED: dict[str, tuple[Any, ...]] = {  # what the learning rate is multiplied with, other settings
    "as it is": (1.0,),
    "half the rate": (0.5,),
    "twice the rate": (2.0,),
    "averaged": (1.0, "train.ema_decay=0.98"),
    "twice the rate, averaged": (2.0, "train.ema_decay=0.98"),
    "slower below": (2.0, "train.layerwise_lr_decay=0.8"),
    "smoothed": (1.0, "objective.label_smoothing=0.1"),
}


class Stopwatch(Reporter):
    """Of the steps: from before the first to behind the last, which is always told."""

    def begin(self, run: Run, plan: RunEstimate) -> None:
        self.begun = self.last = time.perf_counter()

    def step(self, entry: Entry) -> None:
        self.last = time.perf_counter()


def ours(recipe: Recipe, after: Callable[[Run], dict[str, float]] | None = None) -> dict[str, Any]:
    shutil.rmtree(recipe.run.out, ignore_errors=True)
    watch = Stopwatch()
    begun = time.perf_counter()
    run = gf.train(recipe, reporters=[watch], device=DEVICE)
    assert run.finished is not None
    found = {**run.finished["test"], **(after(run) if after else {})}
    found |= {"seconds": time.perf_counter() - begun, "training": watch.last - watch.begun}
    shutil.rmtree(recipe.run.out)
    return found


def theirs(recipe: Recipe, kind: str, few: bool) -> dict[str, Any]:
    if kind == "scope":
        return scope_of_peer(recipe, 50 if few else 1)
    return PEERS[recipe.objective[0].name](recipe, DEVICE).run()


def begun(recipe: Recipe) -> Recipe:
    """With weights and a tokenizer to begin with."""
    fresh = recipe.model.base is None
    return started(recipe, Path(recipe.run.out)) if fresh else recipe


def one_side(side: str, kind: str, name: str, mode: str, seed: int, few: bool) -> dict[str, Any]:
    recipe = begun(recipe_of(name, seed, mode, few))
    after = partial(scope_of_run, every=50 if few else 1) if kind == "scope" else None
    return ours(recipe, after) if side == "glassformer" else theirs(recipe, kind, few)


@cache
def rehearse(kind: str, mode: str) -> None:
    """Once a process: what is done first takes longer."""
    if kind == "together":
        ours(recipe_of("together", 0, few=True))
        return
    for side in SIDES:
        one_side(side, kind, KINDS[kind][0], mode, 0, few=True)


def jobs(bench: Bench, kind: str, name: str, mode: str, seed: int) -> dict[str, Job]:
    """What is compared with each other, by the names that the results have: both sides, or one
    model of all tasks and those of one."""

    def rehearsed(job: Job) -> dict[str, Any]:
        if not bench.trial:
            rehearse(kind, mode)
        return job()

    if kind == "together":
        made: dict[str, Job] = {f"together {seed}": partial(all_tasks, seed, bench.trial)}
        made |= {f"{task} {seed}": partial(one_task, task, seed, bench.trial) for task in ALONE}
    else:
        given = (kind, name, mode, seed, bench.trial)
        made = {f"{mode} {side} {seed}": partial(one_side, side, *given) for side in SIDES}
    return {named: partial(rehearsed, job) for named, job in made.items()}


def modes_of(name: str, asked: Sequence[str]) -> list[str]:
    """What starts from scratch has no body to freeze or to adapt."""
    tuned = name in KINDS["classify"] and recipe_of(name, 0).model.base is not None
    return [mode for mode in asked if tuned or mode == "full"]


def scope_of_run(run: Run, every: int) -> dict[str, float]:
    model = gf.load(run.model, device=DEVICE)
    return scope_scores(lambda records: model.classify([one["text"] for one in records]), every)


def scope_of_peer(recipe: Recipe, every: int) -> dict[str, Any]:
    peer = Classify(recipe, DEVICE)

    def classified(records: list[dict[str, Any]]) -> list[Classification]:
        rows = peer.probabilities(records).tolist()
        return [Classification((), dict(zip(peer.labels, row, strict=True))) for row in rows]

    begun = time.perf_counter()
    found = peer.run()
    found |= scope_scores(classified, every)
    return found | {"seconds": time.perf_counter() - begun}


def try_settings(bench: Bench, name: str, mode: str) -> None:
    """Around those that are taken."""
    taken = recipe_of(name, 1, mode, bench.trial)
    judged = taken.data.test if bench.trial else read_recipe(file_of(name)).data.validation
    for named, (factor, *words) in TRIED.items():
        rate = taken.train.learning_rate * factor
        folder = f"{taken.run.out}-{named.replace(' ', '-')}"
        words += [f"train.learning_rate={rate}", f"run.out={folder}"]
        if taken.objective[0].name == "classification" or "objective" not in " ".join(words):
            recipe = read_recipe(taken, words)
            recipe = replace(recipe, data=replace(recipe.data, test=judged))
            bench.once(f"{mode}, {named}", partial(ours, begun(recipe)))


def all_tasks(seed: int, few: bool) -> dict[str, Any]:
    return ours(recipe_of("together", seed, few=few))


def one_task(task: str, seed: int, few: bool) -> dict[str, Any]:
    """Of together.toml, by itself: as many texts of it, in a third of the steps."""
    whole = recipe_of("together", seed, few=few)
    part, architecture, _ = ALONE[task]
    (own,) = [one for one in whole.objective if one.options["head"] == task]
    options = {k: v for k, v in own.options.items() if k not in ("head", "weight", "rate")}
    labels = options.pop("labels")
    recipe = replace(
        whole,
        model=replace(
            whole.model,
            architecture=architecture,
            init_missing=("classifier",),
            ignore_unexpected=("pooler",) if own.name == "tagging" else (),
            labels=tuple(labels),
        ),
        data=replace(
            whole.data,
            train=(f"data/together/{part}-train.jsonl",),
            test=(f"data/together/{part}-test.jsonl",),
        ),
        objective=(replace(own, options=options),),
        train=replace(
            whole.train,
            max_steps=whole.train.max_steps // len(ALONE),
            warmup_steps=whole.train.num_warmup_steps // len(ALONE),
        ),
        run=replace(whole.run, out=f"runs/tuned/{task}-{seed}"),
    )
    return ours(cut(recipe) if few else recipe)


def main() -> None:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    asked.add_argument("what", choices=[*KINDS, "try", "gather", "tables"])
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
    trying = given.what == "try"
    kinds = [*FIGURES] if trying else [given.what]
    there = [name for kind in kinds for name in KINDS[kind]]
    for name in given.names or there:
        if name not in there:
            asked.error(f"{given.what} has {', '.join(there)}, not {name!r}")
        bench = Bench(f"try/{name}" if trying else name, given.trial)
        os.chdir(bench.place)
        for mode in modes_of(name, given.modes.split(",")):
            if trying:
                try_settings(bench, name, mode)
                continue
            for seed in seeds:
                for job in jobs(bench, given.what, name, mode, seed).items():
                    bench.once(*job)
    if not trying:
        show(table(given.what, bench.path.parent))


if __name__ == "__main__":
    main()
